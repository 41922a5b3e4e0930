# Renders a template of the Salt formula as Salt's own renderer does, without Salt: salt.py DIR TEMPLATE PILLAR.json
import json
import sys

import jinja2

directory, template, pillar = sys.argv[1:]
with open(pillar, encoding="utf-8") as f:
    pillar = json.load(f)


def get(key, default):
    return pillar.get(key, default)


env = jinja2.Environment(
    loader=jinja2.FileSystemLoader(directory), extensions=["jinja2.ext.do"], undefined=jinja2.StrictUndefined
)
sys.stdout.write(env.get_template(template).render(pillar=pillar, salt={"pillar.get": get}))
