package config

import (
	"net/netip"
	"reflect"
	"slices"
)

// A Change is what a reload does to a service.
type Change uint8

// The changes.
const (
	Same            Change = iota
	Added                  // it is new
	Removed                // it is gone: its prefixes are to be withdrawn
	RulesChanged           // its checks or rules differ; it keeps its prefixes and its history
	PrefixesChanged        // its prefixes differ, and perhaps its rules too
)

var changeNames = [...]string{"same", "added", "removed", "rules changed", "prefixes changed"}

// String gives the change in words.
func (c Change) String() string { return changeNames[c] }

// A ServiceChange is what a reload does to one service.
type ServiceChange struct {
	Name   string
	Change Change
}

// Changes is what a reload does.
type Changes struct {
	Services []ServiceChange // all of both configurations, by name
	Agent    bool            // anything in [agent] differs
	Control  bool            // anything in [control] differs
	Router   bool            // anything in [router] differs
	Symbols  []netip.Prefix  // of both configurations, that go by other names in BIRD's: what was done by the old ones would stay
}

// Diff tells what becomes of the configuration in force when it is replaced. It changes neither.
func Diff(from, to *Config) Changes {
	c := Changes{
		Agent:   from.Agent != to.Agent,
		Control: from.Control != to.Control,
		Router:  !reflect.DeepEqual(from.Router, to.Router),
	}
	old, others := from.symbolsOfPrefix(), to.symbolsOfPrefix()
	for p, n := range old {
		if other, both := others[p]; both && other != n {
			c.Symbols = append(c.Symbols, p)
		}
	}
	slices.SortFunc(c.Symbols, netip.Prefix.Compare)
	before, after := byName(from), byName(to)
	for _, name := range slices.Compact(slices.Sorted(slices.Values(append(names(from), names(to)...)))) {
		c.Services = append(c.Services, diffService(name, before[name], after[name]))
	}
	return c
}

func byName(c *Config) map[string]*Service {
	m := make(map[string]*Service, len(c.Services))
	for i := range c.Services {
		m[c.Services[i].Name] = &c.Services[i]
	}
	return m
}

func names(c *Config) []string {
	var names []string
	for _, s := range c.Services {
		names = append(names, s.Name)
	}
	return names
}

func diffService(name string, from, to *Service) ServiceChange {
	c := ServiceChange{Name: name}
	switch {
	case from == nil:
		c.Change = Added
	case to == nil:
		c.Change = Removed
	case !slices.Equal(from.Prefixes, to.Prefixes): // both are sorted
		c.Change = PrefixesChanged
	case !reflect.DeepEqual(from, to):
		c.Change = RulesChanged
	}
	return c
}
