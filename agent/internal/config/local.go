package config

import (
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"vouch/checks"
)

// Local gives what does not fit the machine it is called on, in a configuration that is valid: groups
// that are not there, and what the checks miss (checks.Localer). It reads the file once more for the
// places, which are missing when that cannot be read. It comes back soon, also where a file system hangs.
func (c *Config) Local() Problems {
	var at places
	if data, err := readFile(c.File); err == nil {
		at = locate(string(data))
	}
	ps := append(c.localGroups(), c.localChecks()...)
	for i := range ps {
		ps[i].File, ps[i].Line, ps[i].Col = c.File, at[ps[i].Key].line, at[ps[i].Key].col
	}
	return ps
}

func (c *Config) localGroups() (ps Problems) {
	for _, g := range []struct{ key, name string }{
		{"control.group", c.Control.Group}, {"control.admin_group", c.Control.AdminGroup},
	} {
		if g.name == "" {
			continue
		}
		p := Problem{Key: g.key, Got: fmt.Sprintf("%q", g.name)}
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

func (c *Config) localChecks() (ps Problems) {
	var looks []func() []checks.Problem
	var paths []toml.Key
	for _, s := range c.Services {
		for _, k := range s.Checks {
			looks = append(looks, func() []checks.Problem { return localProblems(k.Spec) })
			paths = append(paths, toml.Key{"service", s.Name, "check", k.Name})
		}
	}
	for i, found := range here.ask(looks) {
		for _, p := range found {
			ps = append(ps, ofCheck(paths[i], p))
		}
	}
	return ps
}

// ofCheck gives a check's problem as one of the whole file.
func ofCheck(path toml.Key, found checks.Problem) Problem {
	if found.Key != "" {
		path = join(path, strings.Split(found.Key, ".")...)
	}
	p := Problem{Key: path.String(), What: found.What, WayOut: found.WayOut}
	if found.Got != "" {
		p.Got = fmt.Sprintf("%q", found.Got)
	}
	return p
}

// localProblems gives what the check finds, and what its addresses miss.
func localProblems(s checks.Spec) (ps []checks.Problem) {
	if l, ok := s.(checks.Localer); ok {
		ps = l.Local()
	}
	t, ok := s.(checks.Targeter)
	if !ok {
		return ps
	}
	if a, ok := s.(checks.Asker); ok && ps == nil {
		ps = a.Astray(t.Targets())
	}
	return append(ps, checks.MissingZones(t.Targets())...)
}

// OfCheck says whether the problem is one of a service, so, among those of Local, of one of its checks.
func (p Problem) OfCheck() bool { return strings.HasPrefix(p.Key, "service.") }

// LocalNews gives what Local finds in the checks of c and did not find in those of old: a reload that would
// bring it is refused, as a check that cannot pass withdraws its service.
func (c *Config) LocalNews(old *Config) Problems {
	had := old.Local()
	return slices.DeleteFunc(c.Local(), func(p Problem) bool {
		known := func(q Problem) bool { return p.Key == q.Key && p.What == q.What && p.Got == q.Got }
		return !p.OfCheck() || slices.ContainsFunc(had, known)
	})
}
