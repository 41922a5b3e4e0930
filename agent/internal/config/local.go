package config

import (
	"errors"
	"fmt"
	"os/user"
)

// Local gives what does not fit the machine it is called on, in a configuration that is valid: groups
// that are not there. It reads the group database, and the file once more for the places, which are
// missing when that cannot be read.
func (c *Config) Local() Problems {
	var at places
	if data, err := readFile(c.File); err == nil {
		at = locate(string(data))
	}
	var ps Problems
	for _, g := range []struct{ key, name string }{
		{"control.group", c.Control.Group}, {"control.admin_group", c.Control.AdminGroup},
	} {
		if g.name == "" {
			continue
		}
		p := Problem{File: c.File, Line: at[g.key].line, Col: at[g.key].col, Key: g.key, Got: fmt.Sprintf("%q", g.name)}
		var unknown user.UnknownGroupError
		switch _, err := user.LookupGroup(g.name); {
		case err == nil:
			continue
		case errors.As(err, &unknown):
			p.What, p.WayOut = "there is no such group", fmt.Sprintf("create it (groupadd --system %s) or name another", g.name)
		default:
			p.What = "the group cannot be looked up: " + err.Error()
		}
		ps = append(ps, p)
	}
	return ps
}
