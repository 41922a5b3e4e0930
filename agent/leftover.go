package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"vouch/agent/internal/config"
	"vouch/agent/internal/state"
	"vouch/routers"
)

// lookAgain is how often the place where an earlier run announced is read while something may be there.
const lookAgain = 10 * time.Second

// A leftover is the place where an earlier run announced prefixes in another way than this one does. Nothing is
// changed there: it is only read, because what is left is not managed any more.
type leftover struct {
	router routers.Router
	ps     []netip.Prefix
	bound  time.Duration   // of one reading
	ready  <-chan struct{} // closed when this run's router was read
	found  func([]routers.Observation) (done bool)
}

// run reads until nothing is left.
func (l *leftover) run(ctx context.Context) error {
	defer func() { _ = l.router.Close() }()
	select {
	case <-ctx.Done():
		return nil
	case <-l.ready:
	}
	for !l.found(l.look(ctx)) {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookAgain):
		}
	}
	<-ctx.Done()
	return nil
}

func (l *leftover) look(ctx context.Context) []routers.Observation {
	ctx, cancel := context.WithTimeout(ctx, l.bound)
	defer cancel()
	obs, _ := l.router.Observe(ctx, slices.Clone(l.ps)) // what could not be read is unknown
	return obs
}

// leftovers gives the task that looks where the earlier run announced, if that was elsewhere and can be read.
func (a *Agent) leftovers(l state.Loaded) []Task {
	if !elsewhere(l, a.cfg.Router) || l.Router == nil {
		return nil
	}
	var rc config.Router
	if err := json.Unmarshal(l.Router, &rc); err != nil {
		return nil
	}
	router, err := a.deps.NewRouter(rc)
	if err != nil {
		return nil
	}
	left := &leftover{router: router, bound: max(rc.Timeout, time.Second), ready: a.read,
		found: func(obs []routers.Observation) bool { return a.core.onLeftover(l.Place, obs) }}
	labels := map[netip.Prefix]routers.Label{}
	for name, s := range l.Services {
		for _, p := range s.Prefixes {
			labels[p] = routers.Label{Service: name, Symbol: s.Symbols[p]}
		}
	}
	left.ps = slices.SortedFunc(maps.Keys(labels), netip.Prefix.Compare)
	label(router, labels)
	return []Task{loop{name: "earlier router", run: left.run}}
}

// elsewhere says whether the earlier run announced in another place than r.
func elsewhere(l state.Loaded, r config.Router) bool { return l.Place != "" && l.Place != place(r) }

// onLeftover takes in what the place of an earlier run says, and is true when nothing is there any more. A prefix
// that is there while this run's router says that it is absent was left there: no withdraw of this run reaches it.
func (c *core) onLeftover(where string, obs []routers.Observation) (done bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	done = true
	was := len(c.left)
	for _, o := range obs {
		switch last := c.seen[o.Prefix]; {
		case o.Stage == routers.Absent:
			delete(c.left, o.Prefix)
			continue
		case o.Stage >= routers.Configured && (last == nil || last.Stage == routers.Absent):
			c.left[o.Prefix] = true
		}
		done = false
	}
	if len(c.left) == 0 {
		c.problem("router", "")
		if was > 0 {
			c.event(state.Event{Level: "info", Kind: state.KindRouter, Reason: "changed", Text: "nothing is left of what the earlier run announced by " + where})
		}
		return done
	}
	text := fmt.Sprintf("%s: still there by %s, as the earlier run left it; this one announces by %s and does not manage that. "+
		"Withdraw it by hand. Next time drain the services before [router] is changed, and resume them afterwards",
		joinPrefixes(c.left), where, place(c.cfg.Router))
	if was == 0 {
		c.event(state.Event{Level: "error", Kind: state.KindRouter, Reason: "changed", Text: text})
	}
	c.problem("router", text)
	return done
}

func joinPrefixes(ps map[netip.Prefix]bool) string {
	var names []string
	for _, p := range slices.SortedFunc(maps.Keys(ps), netip.Prefix.Compare) {
		names = append(names, p.String())
	}
	return strings.Join(names, ", ")
}

// rename notes which prefixes went by another symbol in the earlier run: what the daemon's configuration has by
// that one, this run cannot withdraw.
func (c *core) rename(l state.Loaded) {
	for _, sc := range c.cfg.Services {
		for _, p := range sc.Prefixes {
			now := c.cfg.Router.SymbolOf(sc.Name, c.labels[p].Symbol, p)
			for _, saved := range l.Services {
				if was := saved.Symbols[p]; was != "" && now != "" && was != now && slices.Contains(saved.Prefixes, p) {
					c.renamed[p] = fmt.Sprintf("%s of %s goes by %s in BIRD's configuration now, and went by %s in the earlier run: where BIRD's configuration "+
						"still has that, this run can neither announce nor withdraw it. Write %s there, or keep the old one with symbol in [service.%s]; "+
						`then "vouch drain %s" shows that it goes`, p, sc.Name, now, was, now, sc.Name, sc.Name)
				}
			}
		}
	}
}

// onRenamed tells of prefixes with another symbol than before, until one is read to be withdrawn by the new one.
func (c *core) onRenamed() {
	for p, text := range c.renamed {
		ps, about := c.seen[p], "symbol of "+p.String()
		switch {
		case ps == nil || ps.want == routers.Withdrawn && ps.gone():
			delete(c.renamed, p)
			c.problem(about, "")
		case ps.Stage != routers.Unknown && c.problems[about] == "":
			c.problem(about, text)
			c.event(state.Event{Level: "warn", Kind: state.KindRouter, Reason: "renamed", Service: c.ownerOf(p), Prefix: p.String(), Text: text})
		}
	}
}
