{%- set vouch = salt['pillar.get']('vouch', {}) %}
{%- set drain = ' --drain' if vouch.get('router_change') == 'drain' else '' %}
{%- set apply = vouch.get('apply_file', '/usr/local/sbin/vouch-apply') %}
{%- set binary = vouch.get('binary', '/usr/bin/vouch') %}
{%- set config_file = vouch.get('config_file', '/etc/vouch/vouch.toml') %}
{%- if vouch.get('deb') %}

vouch-package:
  pkg.installed:
    - sources:
      - vouch: {{ vouch['deb'] | tojson }}
    - require_in:
      - file: vouch-config
{%- endif %}

vouch-apply-file:
  file.managed:
    - name: {{ apply | tojson }}
    - source: salt://vouch/files/vouch-apply
    - mode: '0755'

# A file that vouch refuses never gets to its place.
vouch-config:
  file.managed:
    - name: {{ config_file | tojson }}
    - source: salt://vouch/files/vouch.toml.jinja
    - template: jinja
    - mode: '0644'
    - makedirs: true
    - check_cmd: {{ (binary ~ ' validate --config') | tojson }}
{%- if vouch.get('manage_service', true) %}

vouch-service:
  service.running:
    - name: vouch
    - enable: true
    - require:
      - file: vouch-config
    - require_in:
      - cmd: vouch-apply
{%- endif %}

# A reload where that is enough, else a restart; fails when the new configuration does not come in force.
# vouch itself is asked whether it is: so a run that was cut short, or a reload that vouch refused, is made up
# for by the next run.
vouch-apply:
  cmd.run:
    - name: {{ (apply ~ drain) | tojson }}
    - unless: {{ (apply ~ ' --check') | tojson }}
    - env:
      - VOUCH: {{ binary | tojson }}
      - VOUCH_CONFIG: {{ config_file | tojson }}
    - require:
      - file: vouch-apply-file
      - file: vouch-config
