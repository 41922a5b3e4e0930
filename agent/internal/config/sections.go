package config

import "fmt"

func (p parser) agent(t *table) Agent {
	a := Agent{StateFile: "/run/vouch/state.json", LogLevel: "info"}
	t.fill(&a)
	t.unknown("")
	if t.has("node") {
		t.matches("node", a.Node, nodeForm, nodeWords, "leave it out for the host's name")
	} else {
		a.Node = p.hostNode(t)
	}
	t.absolute("state_file", a.StateFile, maxPath)
	t.oneOf("log_level", a.LogLevel, "debug", "info", "warn", "error")
	return a
}

const nodeWords = `must be up to 253 letters, digits, ".", "_" and "-"`

// hostNode gives the host's name as that of the node.
func (p parser) hostNode(t *table) string {
	name, err := p.hostname()
	switch {
	case err != nil:
		t.refuse("node", "is not set, and the host's name cannot be read: "+err.Error(), `write node = "NAME" in [agent]`)
	case !nodeForm.MatchString(name):
		t.refuse("node", fmt.Sprintf("is not set, and the host's name %q %s", name, nodeWords), `write node = "NAME" in [agent]`)
	}
	return name
}

func control(t *table) Control {
	c := Control{Socket: "/run/vouch/control.sock"}
	t.fill(&c)
	t.unknown("")
	t.absolute("socket", c.Socket, maxSocketPath)
	if t.has("group") {
		t.matches("group", c.Group, groupForm, "must be the name of a group", "leave it out for the agent's own")
	}
	if t.has("admin_group") {
		t.matches("admin_group", c.AdminGroup, groupForm, "must be the name of a group", "leave it out for none")
	}
	return c
}

// setDefault gives a key that is not written its default.
func setDefault[T any](t *table, key string, v *T, def T) {
	if !t.has(key) {
		*v = def
	}
}
