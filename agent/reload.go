package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
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
		err = errors.Join(fixed(a.core.cfg, cfg), checkProbes(cfg))
	}
	if err != nil {
		a.core.onReloadRefused(err)
		return
	}
	stop, start := a.core.onReload(cfg)
	for _, name := range stop {
		a.runners.stop(name)
	}
	for _, s := range start {
		a.runners.start(work, s.cfg, s.generation)
	}
}

// fixed refuses changes of what cannot be changed while the agent runs.
func fixed(old, now *config.Config) error {
	var errs []error
	for _, t := range []struct {
		name     string
		old, now any
	}{
		{"agent", old.Agent, now.Agent}, {"control", old.Control, now.Control}, {"router", old.Router, now.Router},
	} {
		if !reflect.DeepEqual(t.old, t.now) {
			errs = append(errs, fmt.Errorf("%s: [%s] is not the same, and is read only at start: restart vouch (systemctl restart vouch)", now.File, t.name))
		}
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
	old := c.cfg
	c.cfg = cfg
	c.head.Config = state.Config{File: cfg.File, Loaded: time.Now()}
	var notes []string
	for _, sc := range cfg.Services {
		s := c.services[sc.Name]
		if s != nil && !s.removed && reflect.DeepEqual(s.cfg, sc) {
			continue
		}
		verb := "changed"
		if s == nil || s.removed {
			verb = "added"
		}
		notes = append(notes, sc.Name+" "+verb)
		stop, start = append(stop, sc.Name), append(start, c.replace(s, sc))
	}
	for _, sc := range old.Services {
		if !slices.ContainsFunc(cfg.Services, func(n config.Service) bool { return n.Name == sc.Name }) {
			notes = append(notes, sc.Name+" removed")
			stop = append(stop, sc.Name)
			c.services[sc.Name].remove()
		}
	}
	c.releaseLeaving()
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
			n.generation, n.leaving = s.generation, s.leaving
		}
		s = n
		c.services[sc.Name] = s
	} else {
		s.leaving = append(s.leaving, s.cfg.Prefixes...)
		s.cfg, s.checks = sc, checkRecords(sc, s.checks)
	}
	s.generation++
	return restart{cfg: sc, generation: s.generation}
}

// remove makes all of a service's prefixes leave.
func (s *service) remove() {
	s.leaving = s.managed()
	s.removed = true
	s.checks = nil
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
