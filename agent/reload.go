package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"vouch/agent/internal/config"
	"vouch/agent/internal/state"
)

// reload reads the configuration again. A file that is refused changes nothing; services that are
// the same in the new one go on undisturbed.
func (a *Agent) reload(work context.Context) {
	cfg, err := config.Load(a.cfg.File)
	if err == nil {
		if a.deps.Socket != "" {
			cfg.Control.Socket = a.deps.Socket
		}
		err = refusal(a.core.config(), cfg)
	}
	if err != nil {
		a.core.onReloadRefused(err)
		return
	}
	label(a.router, cfg.Labels())
	stop, start := a.core.onReload(cfg)
	a.runners.stop(stop...)
	for _, s := range start {
		a.runners.start(work, s.cfg, s.generation)
	}
}

// refusal says why cfg, which is valid, cannot take the place of old; nil: it can.
func refusal(old, cfg *config.Config) error {
	if err := errors.Join(fixed(config.Diff(old, cfg), cfg.File), checkProbes(cfg)); err != nil {
		return err
	}
	if news := cfg.LocalNews(old); len(news) > 0 {
		return news
	}
	return nil
}

// fixed refuses changes of what cannot be changed while the agent runs.
func fixed(d config.Changes, file string) error {
	var errs []error
	for _, t := range []struct {
		name    string
		differs bool
		wayOut  string
	}{
		{"agent", d.Agent, "restart vouch"}, {"control", d.Control, "restart vouch"},
		{"router", d.Router, "drain the services, restart vouch and resume them, so that nothing stays announced in the old way"},
	} {
		if t.differs {
			errs = append(errs, fmt.Errorf("%s: [%s] is not the same, and is read only at start: %s", file, t.name, t.wayOut))
		}
	}
	if len(d.Symbols) > 0 {
		errs = append(errs, fmt.Errorf("%s: %v would go by another symbol in BIRD's configuration, and stay announced by the one it has: "+
			"drain the services, restart vouch and resume them", file, d.Symbols[0]))
	}
	return errors.Join(errs...)
}

// onReloadRefused takes in that a new configuration was refused.
func (c *core) onReloadRefused(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.head.Config.Error = err.Error()
	first, _, more := strings.Cut(err.Error(), "\n")
	if more {
		first += " (and more: vouch validate)"
	}
	c.problem("reload", "the last reload was refused, the configuration from before is in force: "+state.Clean(first))
	c.event(state.Event{Level: "error", Kind: state.KindReload, Reason: "refused", Text: "the new configuration is refused, the old one stays in force: " + state.Clean(first)})
	c.settle(time.Now())
}

// A restart is a service whose checks are to be run anew.
type restart struct {
	cfg        config.Service
	generation int
}

// onReload puts cfg in force, and gives the services whose checks are to be stopped and started.
func (c *core) onReload(cfg *config.Config) (stop []string, start []restart) {
	c.mu.Lock()
	defer c.mu.Unlock()
	diff := config.Diff(c.cfg, cfg)
	c.cfg = cfg
	c.head.Config = state.Config{File: cfg.File, Loaded: time.Now()}
	var notes []string
	for _, d := range diff.Services {
		if d.Change == config.Same {
			continue
		}
		notes = append(notes, d.Name+" "+d.Change.String())
		stop = append(stop, d.Name)
		if d.Change == config.Removed {
			c.services[d.Name].remove()
		}
	}
	for _, d := range diff.Services {
		if d.Change == config.Same || d.Change == config.Removed {
			continue
		}
		start = append(start, c.replace(c.services[d.Name], *find(cfg, d.Name)))
		c.inheritDrain(c.services[d.Name])
	}
	c.releaseLeaving()
	c.relabel()
	c.examine()
	c.problem("reload", "")
	if len(notes) == 0 {
		notes = []string{"nothing changed"}
	}
	c.event(state.Event{Level: "info", Kind: state.KindReload, Text: "the new configuration is in force: " + strings.Join(notes, ", ")})
	c.settle(time.Now())
	return stop, start
}

// replace gives the service a new configuration. Its history stays: verdict, counters, drain.
func (c *core) replace(s *service, sc config.Service) restart {
	if s == nil || s.removed {
		n := newService(sc)
		if s != nil {
			n.generation, n.leaving, n.drain = s.generation, s.leaving, s.drain
		}
		s = n
		c.services[sc.Name] = s
	} else {
		s.leaving = append(s.leaving, s.cfg.Prefixes...)
		s.configure(sc)
	}
	s.generation++
	return restart{cfg: sc, generation: s.generation}
}

// inheritDrain drains a service that has taken over a prefix of a drained one which was removed: a
// service that gets another name must not come back by that.
func (c *core) inheritDrain(s *service) {
	for _, old := range c.services {
		if old.removed && old.drain != nil && slices.ContainsFunc(s.cfg.Prefixes, func(p netip.Prefix) bool { return slices.Contains(old.leaving, p) }) {
			c.inheritFrom(s, old.name, old.drain)
		}
	}
}

// remove makes all of a service's prefixes leave.
func (s *service) remove() {
	s.leaving = s.managed()
	s.removed = true
	s.cfg.Checks, s.checks = nil, nil
	s.generation++
}

// releaseLeaving keeps what is configured from being withdrawn as left over from before.
func (c *core) releaseLeaving() {
	for _, name := range slices.Sorted(maps.Keys(c.services)) {
		s := c.services[name]
		s.leaving = c.unconfigured(s.leaving)
		slices.SortFunc(s.leaving, netip.Prefix.Compare)
		s.leaving = slices.Compact(s.leaving)
		if s.removed && len(s.leaving) == 0 {
			delete(c.services, name)
		}
	}
}

// config gives the configuration in force.
func (c *core) config() *config.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cfg
}
