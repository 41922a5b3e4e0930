package agent

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"vouch/agent/internal/config"
	"vouch/agent/internal/decide"
	"vouch/agent/internal/health"
	"vouch/agent/internal/state"
	"vouch/routers"
)

// restore takes up what an earlier run left in the state file, before anything is decided.
func (c *core) restore(l state.Loaded) {
	c.store.Restore(l.Events)
	for _, s := range c.services {
		s.unrisen = !l.SameBoot
	}
	for name, saved := range l.Services {
		s := c.services[name]
		if s == nil {
			s = &service{name: name, removed: true}
		}
		if l.SameBoot {
			s.leaving = c.unconfigured(saved.Prefixes)
			for _, p := range s.leaving {
				c.labels[p] = routers.Label{Service: name, Symbol: saved.Symbols[p]}
			}
		}
		s.drain = saved.Drain
		if !s.removed {
			s.st, s.unrisen = saved.State, saved.Unrisen
			if degradable(&s.cfg) {
				s.soft = saved.Soft
			}
			s.unconfirmed = s.st.Verdict == health.Up
		}
		if !s.removed || len(s.leaving) > 0 {
			c.services[name] = s
		}
	}
}

// noteLocal tells what is valid in the configuration but does not fit this machine. What a check misses may
// come to be there, and the check itself says so until then.
func (c *core) noteLocal(ps config.Problems) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range ps {
		level := "error"
		if !p.OfCheck() {
			level = "warn"
			c.problem("local "+p.Key, p.Error())
		}
		c.event(state.Event{Level: level, Kind: state.KindStart, Reason: "local", Text: state.Clean(p.Error())})
	}
}

// notePlace tells when the earlier run announced in another way, of a state file that does not say how to look
// there: what it left there is not managed any more, and only a person can know whether it is still wanted.
func (c *core) notePlace(l state.Loaded) {
	announced := false
	for _, s := range l.Services {
		announced = announced || s.Drain == nil && s.State.Verdict == health.Up
	}
	if !l.SameBoot || !elsewhere(l, c.cfg.Router) || l.Router != nil || !announced {
		return
	}
	text := fmt.Sprintf("the earlier run announced by %s, this one does by %s: what may still be announced there is not managed any more. "+
		"If it is, withdraw it by hand. Next time drain the services before [router] is changed, and resume them afterwards", l.Place, place(c.cfg.Router))
	c.problem("router", text)
	c.event(state.Event{Level: "error", Kind: state.KindRouter, Reason: "changed", Text: text})
}

// place says in what way and where a router announces prefixes. The text goes into the state file.
func place(r config.Router) string {
	switch {
	case len(r.Up) > 0:
		return "command " + strings.Join(r.Up, " ")
	case r.Method == "address" && r.Owner == "frr":
		return "address on " + r.Interface + " in FRR's configuration"
	case r.Method == "address":
		return "address on " + r.Interface
	case r.Method == "network":
		return "network statement in " + r.SocketDir
	case r.Method == "protocol":
		return strings.TrimSpace("protocol of BIRD " + r.Symbol)
	case r.Method == "include":
		return "include file " + r.Include
	}
	return r.Method + " route in " + r.SocketDir
}

// inherit lets services that took over a prefix of a drained one, which is not configured any more, be drained as
// that was: one that gets another name must not come back by that.
func (c *core) inherit(l state.Loaded) {
	for _, old := range slices.Sorted(maps.Keys(l.Services)) {
		saved := l.Services[old]
		if s := c.services[old]; s != nil && !s.removed || saved.Drain == nil {
			continue
		}
		for _, sc := range c.cfg.Services {
			if s := c.services[sc.Name]; slices.ContainsFunc(sc.Prefixes, func(p netip.Prefix) bool { return slices.Contains(saved.Prefixes, p) }) {
				c.inheritFrom(s, old, saved.Drain)
			}
		}
	}
}

// inheritFrom drains s, unless it is, as another service was.
func (c *core) inheritFrom(s *service, old string, drain *decide.Drain) {
	if s.drain != nil {
		return
	}
	d := *drain
	s.drain = &d
	c.event(state.Event{Level: "warn", Kind: state.KindDrain, Service: s.name, Reason: "drain",
		Text: "takes over a prefix of " + old + " and its drain: " + drainText(d)})
}

// unconfigured gives those of ps that no configured service has.
func (c *core) unconfigured(ps []netip.Prefix) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(ps), func(p netip.Prefix) bool {
		for _, sc := range c.cfg.Services {
			if slices.Contains(sc.Prefixes, p) {
				return true
			}
		}
		return false
	})
}

// noteLoaded tells what was wrong with the state file at start.
func (c *core) noteLoaded(l state.Loaded, err error) {
	switch {
	case err != nil:
		c.problem("state file at start", "the state of the earlier run is lost: "+err.Error())
		c.event(state.Event{Level: "error", Kind: state.KindFile, Reason: "unreadable", Text: err.Error()})
	case l.Why != nil:
		c.problem("state file at start", "the state of the earlier run is lost: "+l.Why.Error()+"; it was moved to "+l.Aside)
		c.event(state.Event{Level: "error", Kind: state.KindFile, Reason: "corrupt", Text: l.Why.Error() + "; it was moved to " + l.Aside})
	}
}

// onUnlocked takes in that the state file could not be locked, or with nil that it is.
func (c *core) onUnlocked(err error) {
	if err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problem("state lock", "nothing keeps a second vouch off the state file: "+state.Clean(err.Error()))
	c.event(state.Event{Level: "error", Kind: state.KindFile, Reason: "unlocked", Text: state.Clean(err.Error())})
}

// onFile takes in that writing the state file failed, or with nil that it succeeds again.
func (c *core) onFile(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.problem("state file", "")
		c.event(state.Event{Level: "info", Kind: state.KindFile, Text: "the state file can be written again"})
		return
	}
	c.problem("state file", "a restart of vouch would lose what it knows: "+err.Error())
	c.event(state.Event{Level: "error", Kind: state.KindFile, Reason: "unwritable", Text: err.Error() + "; it is tried again"})
}
