package agent

import (
	"maps"
	"net/netip"

	"vouch/routers"
)

// label tells the driver what the operator calls each prefix, if it wants to know.
func label(r routers.Router, labels map[netip.Prefix]routers.Label) {
	if l, ok := r.(routers.Labeled); ok {
		l.SetLabels(labels)
	}
}

// allLabels gives the labels of all managed prefixes. Those that an earlier run left are in it: they
// have to be withdrawn by the name that they were announced under.
func (c *core) allLabels() map[netip.Prefix]routers.Label {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.labels)
}

// relabel takes in the labels of the configuration in force. A prefix that leaves keeps its own.
func (c *core) relabel() {
	old := c.labels
	c.labels = c.cfg.Labels()
	for _, s := range c.services {
		for _, p := range s.leaving {
			if _, named := c.labels[p]; !named {
				c.labels[p] = old[p]
			}
		}
	}
}

// symbolsOf gives what the prefixes of s go by in the daemon's configuration, of those that go by anything: a
// later run whose configuration names them otherwise has to withdraw what is left by these.
func (c *core) symbolsOf(s *service) map[netip.Prefix]string {
	var symbols map[netip.Prefix]string
	for _, p := range s.managed() {
		if symbol := c.cfg.Router.SymbolOf(s.name, c.labels[p].Symbol, p); symbol != "" {
			if symbols == nil {
				symbols = map[netip.Prefix]string{}
			}
			symbols[p] = symbol
		}
	}
	return symbols
}
