package contrib

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What the tools are, as Debian has them.
const (
	ansible = "/usr/bin/ansible-playbook"
	puppet  = "/usr/bin/puppet"
	python  = "/usr/bin/python3"
	jinja   = "/usr/lib/python3/dist-packages/jinja2/__init__.py"
)

// A site is a machine as far as a tool can see: a directory with the files that the tool is to write, the
// program that validates them, and the systemctl that is found there.
type site struct {
	dir       string
	binary    string
	systemctl string
}

// newSite is one on which vouch does not run.
func newSite(t *testing.T, binary string) site {
	s := site{dir: t.TempDir(), binary: binary}
	s.systemctl = write(t, s.path("bin/systemctl"), "#!/bin/sh\nexit 3\n")
	return s
}

func (s site) path(name string) string { return filepath.Join(s.dir, name) }
func (s site) config() string          { return s.path("etc/vouch/vouch.toml") }
func (s site) apply() string           { return s.path("sbin/vouch-apply") }

func (s site) env() []string {
	return []string{
		"PATH=" + filepath.Dir(s.systemctl) + ":/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + s.dir, "LC_ALL=C.UTF-8",
		"ANSIBLE_LOCAL_TEMP=" + s.path("tmp"), "ANSIBLE_REMOTE_TEMP=" + s.path("tmp"), "ANSIBLE_NOCOLOR=1", "ANSIBLE_ROLES_PATH=",
	}
}

// A tool writes the configuration on a site and puts it in force.
type tool struct {
	name  string
	files []string
	run   func(t *testing.T, s site, config any, options ...string) (string, error)
}

var tools = []tool{
	{"ansible", []string{ansible}, runAnsible},
	{"puppet", []string{puppet}, runPuppet},
	{"salt", []string{python, jinja}, runSalt},
}

// runAnsible runs the role on this machine.
func runAnsible(t *testing.T, s site, config any, options ...string) (string, error) {
	play := write(t, s.path("play.yml"), "- hosts: localhost\n  connection: local\n  gather_facts: false\n  roles: [vouch]\n")
	vars := write(t, s.path("vars.json"), encode(t, map[string]any{
		"vouch_config": config, "vouch_binary": s.binary, "vouch_config_file": s.config(), "vouch_apply_file": s.apply(),
		"vouch_manage_service": false, "ansible_python_interpreter": python,
	}))
	if err := os.MkdirAll(filepath.Dir(s.apply()), 0o755); err != nil {
		t.Fatal(err)
	}
	env := append(s.env(), "ANSIBLE_ROLES_PATH="+absolute(t, "ansible/roles"))
	return run(t, env, append([]string{ansible, "-i", "localhost,", "-e", "@" + vars, play}, options...)...)
}

// runPuppet applies the class on this machine. Exit status 2 is that something was changed.
func runPuppet(t *testing.T, s site, config any, options ...string) (string, error) {
	write(t, s.path("data/common.json"), encode(t, map[string]any{
		"vouch::config": config, "vouch::binary": s.binary, "vouch::config_file": s.config(), "vouch::apply_file": s.apply(),
		"vouch::manage_service": false,
	}))
	hiera := write(t, s.path("hiera.yaml"), "version: 5\nhierarchy: [{name: all, path: common.json, data_hash: json_data, datadir: "+s.path("data")+"}]\n")
	manifest := write(t, s.path("site.pp"), "include vouch\n")
	for _, f := range []string{s.config(), s.apply()} {
		if err := os.MkdirAll(filepath.Dir(f), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	args := append(puppetArgs(s, "apply"), "--hiera_config", hiera, "--modulepath", absolute(t, "puppet"))
	return run(t, s.env(), append(append(args, options...), manifest)...)
}

func puppetArgs(s site, command ...string) []string {
	return append(append([]string{puppet}, command...), "--confdir", s.path("conf"), "--vardir", s.path("var"), "--color", "false")
}

// runSalt renders the formula's template, and does what its state says with the file: Salt is no package
// of Debian's.
func runSalt(t *testing.T, s site, config any, _ ...string) (string, error) {
	next := s.path("next.toml")
	text, err := renderSalt(t, s, "vouch/files/vouch.toml.jinja", map[string]any{"config": config})
	if err != nil {
		return text, err
	}
	write(t, next, text)
	out, err := run(t, s.env(), s.binary, "validate", "--config", next)
	if err == nil {
		write(t, s.config(), text)
	}
	return out, err
}

func renderSalt(t *testing.T, s site, template string, vouch any) (string, error) {
	pillar := write(t, s.path("pillar.json"), encode(t, map[string]any{"vouch": vouch}))
	return run(t, s.env(), python, "testdata/salt.py", "salt", template, pillar)
}

// without gives the data without a key.
func without(data map[string]any, path ...string) map[string]any {
	copied := map[string]any{}
	for k, v := range data {
		switch inner, isTable := v.(map[string]any); {
		case k != path[0]:
			copied[k] = v
		case len(path) > 1 && isTable:
			copied[k] = without(inner, path[1:]...)
		}
	}
	return copied
}

// with gives the data with a value at a path.
func with(data map[string]any, value any, path ...string) map[string]any {
	copied := without(data, path[0])
	if len(path) == 1 {
		copied[path[0]] = value
		return copied
	}
	inner, _ := data[path[0]].(map[string]any)
	copied[path[0]] = with(inner, value, path[1:]...)
	return copied
}

func TestToolsShipTheSameFiles(t *testing.T) {
	const role = "ansible/roles/vouch/"
	for _, same := range [][2]string{
		{role + "files/vouch-apply", "salt/vouch/files/vouch-apply"},
		{role + "files/vouch-apply", "puppet/vouch/files/vouch-apply"},
		{role + "templates/toml.j2", "salt/vouch/files/toml.jinja"},
	} {
		if read(t, same[0]) != read(t, same[1]) {
			t.Errorf("%s and %s differ: copy the one over the other", same[0], same[1])
		}
	}
}

// TestExamplesSayTheSame: what the examples of the three tools have as data is one valid configuration.
func TestExamplesSayTheSame(t *testing.T) {
	need(t, python, jinja, ansible)
	load := func(file string, path ...string) map[string]any {
		text := must(t, nil, python, "-c", "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))", file)
		var node any
		if text[0] == '[' {
			node = decode(t, `{"plays": `+text+`}`)["plays"].([]any)[0]
		} else {
			node = decode(t, text)
		}
		for _, p := range path {
			node = node.(map[string]any)[p]
		}
		return node.(map[string]any)
	}
	var first string
	for _, data := range []map[string]any{
		load("salt/pillar.example", "vouch", "config"), load("puppet/examples/hiera.yaml", "vouch::config"),
		load("ansible/examples/anycast.yml", "vars", "vouch_config"),
	} {
		s := newSite(t, vouch(t))
		if out, err := runSalt(t, s, data); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		text := read(t, s.config())
		if first == "" {
			first = text
		}
		if text != first {
			t.Errorf("the examples differ:\n%s\nand\n%s", first, text)
		}
	}
	if !strings.Contains(first, "[service.resolver.check.uplink]") {
		t.Errorf("the examples have lost their service:\n%s", first)
	}
	must(t, append(newSite(t, "").env(), "ANSIBLE_ROLES_PATH="+absolute(t, "ansible/roles")), ansible, "--syntax-check", "-i", "resolvers,", "ansible/examples/anycast.yml")
}
