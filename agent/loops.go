package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"vouch/agent/internal/state"
	"vouch/checks"
	"vouch/routers"
)

// runClock lets the core see time pass. Its beat proves that the core is not stuck.
func (a *Agent) runClock(ctx context.Context) error {
	beat := a.beats.Register("core", beatLimit)
	defer beat.Close()
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			a.core.tick()
			beat.Beat()
		}
	}
}

// statusPause bounds how often the status line is looked at.
const statusPause = 500 * time.Millisecond

// runStatus keeps the service manager's status line true.
func (a *Agent) runStatus(ctx context.Context) error {
	told := ""
	for {
		changed := a.core.store.Changed()
		if line := statusLine(a.core.Snapshot()); line != told {
			told = line
			a.notify(func() error { return a.deps.Notifier.Status(line) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(statusPause):
		}
	}
}

// statusLine says in one line how things are, the bad first.
func statusLine(s *state.Snapshot) string {
	var parts []string
	if !s.Router.OK && !s.Router.Since.IsZero() {
		parts = append(parts, s.Router.Name+" cannot be read")
	}
	parts = append(parts, s.Problems...)
	for _, sv := range s.Services {
		announced, diverged := 0, 0
		for _, p := range sv.Prefixes {
			if p.Stage != routers.Unknown && p.Stage >= s.Router.Goal {
				announced++
			}
			if !p.Diverged.IsZero() {
				diverged++
			}
		}
		line := fmt.Sprintf("%s %s, %d of %d prefixes %s", sv.Name, sv.Verdict, announced, len(sv.Prefixes), s.Router.Goal)
		if sv.Drain != nil {
			line += ", drained"
		}
		if diverged > 0 {
			line += fmt.Sprintf(", %d diverged", diverged)
		}
		parts = append(parts, line)
	}
	return strings.Join(parts, "; ")
}

// logEvent logs an event with its fields.
func (a *Agent) logEvent(e state.Event) {
	level := slog.LevelInfo
	switch e.Level {
	case "warn":
		level = slog.LevelWarn
	case "error":
		level = slog.LevelError
	}
	attrs := []slog.Attr{slog.String("kind", e.Kind)}
	for _, f := range []struct{ key, value string }{
		{"service", e.Service}, {"prefix", e.Prefix}, {"check", e.Check}, {"router", e.Router}, {"stage", e.Stage}, {"reason", e.Reason},
	} {
		if f.value != "" {
			attrs = append(attrs, slog.String(f.key, f.value))
		}
	}
	a.deps.Log.LogAttrs(context.Background(), level, eventLine(e), attrs...)
}

// eventLine is an event as one line of text.
func eventLine(e state.Event) string {
	var subject []string
	for _, s := range []string{e.Service, e.Prefix, e.Check} {
		if s != "" {
			subject = append(subject, s)
		}
	}
	if len(subject) == 0 {
		return e.Text
	}
	return strings.Join(subject, " ") + ": " + e.Text
}

// onLate takes in that a loop makes no progress: the watchdog is no longer fed.
func (c *core) onLate(name string) {
	// The core may be what is stuck, so its lock is not taken here.
	c.log(c.store.Add(state.Event{Time: time.Now(), Level: "error", Kind: state.KindTask, Reason: "stuck",
		Text: "no progress in " + name + "; the watchdog is not fed"}))
}

// onTaskFailed takes in that a task failed; it is started again. The same failure is told once.
func (c *core) onTaskFailed(name string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := name + ": " + state.Clean(err.Error()) + "; it is started again"
	if c.problems[name] == text {
		return
	}
	c.problem(name, text)
	c.event(state.Event{Level: "error", Kind: state.KindTask, Reason: "failed", Text: text})
}

// onTaskWorks takes in that a task which had failed works again.
func (c *core) onTaskWorks(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problem(name, "")
	c.event(state.Event{Level: "info", Kind: state.KindTask, Text: name + " works again"})
}

// onChecksBroken takes in that the checks of a service did not end as they should.
func (c *core) onChecksBroken(service string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.event(state.Event{Level: "error", Kind: state.KindTask, Service: service, Reason: "checks", Text: state.Clean(err.Error())})
}

// onHints takes in that a check's source of hints is lost, so that it only polls, or with nil that it
// is back. The same loss is told once.
func (c *core) onHints(service, check string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	about := "hints of " + service + "/" + check
	if err == nil {
		c.problem(about, "")
		c.event(state.Event{Level: "info", Kind: state.KindTask, Service: service, Check: check, Reason: "hints", Text: "is told of changes again"})
		return
	}
	if c.problems[about] == "" {
		c.event(state.Event{Level: "warn", Kind: state.KindTask, Service: service, Check: check, Reason: "hints",
			Text: "is not told of changes until this ends, and polls: " + state.Clean(err.Error())})
	}
	c.problem(about, service+"/"+check+" is not told of changes and only polls: "+state.Clean(err.Error()))
}

// onReady takes in that all loops run and the router was read once.
func (c *core) onReady() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.head.Ready = true
	c.event(state.Event{Level: "info", Kind: state.KindReady, Text: "ready: " + c.head.Router.Name})
	c.settle(time.Now())
}

// onTargets records what the checks of a service probe.
func (c *core) onTargets(name string, generation int, probes []checks.Probe) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.services[name]; s != nil && s.generation == generation {
		for i, p := range probes {
			s.checks[i].Target = state.Clean(p.Checker.String())
		}
	}
}

// beginStop starts the stop, and says whether there are services with on_stop = "withdraw": they are
// withdrawn from now on, unless the agent is only replaced by another one.
func (c *core) beginStop(replaced bool) (withdraws bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.head.Stopping = true
	for _, s := range c.services {
		s.stopping = !replaced && !s.removed && s.cfg.OnStop == "withdraw"
		withdraws = withdraws || s.stopping
	}
	text := "vouch stops; what is announced stays"
	switch {
	case replaced:
		text = "vouch stops to be replaced by another one at once; what is announced stays"
	case withdraws:
		text = `vouch stops and withdraws the services with on_stop = "withdraw"`
	}
	c.event(state.Event{Level: "info", Kind: state.KindStop, Text: text})
	for _, p := range slices.SortedFunc(maps.Keys(c.desired), netip.Prefix.Compare) {
		if err := c.givenUp(p); err != nil {
			c.event(state.Event{Level: "warn", Kind: state.KindStop, Service: c.ownerOf(p), Prefix: p.String(), Stage: c.last(p).Stage.String(),
				Text: "is not waited for: " + state.Clean(err.Error())})
		}
	}
	c.settle(time.Now())
	return withdraws
}

// unfinished gives the prefixes that ought to be withdrawn and were not read so yet. Whatever on_stop
// says, a withdraw that was begun is seen through; but that of a prefix which is not configured any more, and which
// the router refuses, is a person's to make, and was told.
func (c *core) unfinished() []netip.Prefix {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ps []netip.Prefix
	for p, want := range c.desired {
		if last := c.last(p); want == routers.Withdrawn && (!c.current || !last.gone() && c.givenUp(p) == nil) {
			ps = append(ps, p)
		}
	}
	slices.SortFunc(ps, netip.Prefix.Compare)
	return ps
}

// givenUp gives why the router refuses to withdraw a prefix that is not configured any more; nil for all others.
func (c *core) givenUp(p netip.Prefix) error {
	if out := c.last(p).out; out != nil && errors.Is(out.Err, routers.ErrRefused) && len(c.unconfigured([]netip.Prefix{p})) > 0 {
		return out.Err
	}
	return nil
}

// isLocked tells whether any of the prefixes is not withdrawn because others keep the daemon from being changed.
func (c *core) isLocked(ps []netip.Prefix) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(ps, func(p netip.Prefix) bool {
		last := c.last(p)
		return last.out != nil && errors.Is(last.out.Err, routers.ErrBusy)
	})
}

// onStopFailed takes in that withdraws could not be verified in time, and gives the text for whoever stopped vouch:
// nobody goes on trying, and what is out of the table may come back.
func (c *core) onStopFailed(ps []netip.Prefix, patience time.Duration) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	after := patience.Round(time.Second).String()
	const wayOut = "nobody withdraws it from now on: run vouch withdraw --owned, or start vouch again"
	var order []string
	same := map[string][]string{}
	for _, p := range ps {
		last := c.last(p)
		why := standing(last.Observation)
		if text := last.whyText(); text != "" {
			why += ": " + text
		}
		c.event(state.Event{Level: "error", Kind: state.KindStop, Service: c.ownerOf(p), Prefix: p.String(), Stage: last.Stage.String(),
			Text: fmt.Sprintf("ought to be withdrawn, and when vouch ends, %s after it began to stop, it is still read %s. As vouch ends, %s", after, why, wayOut)})
		if same[why] == nil {
			order = append(order, why)
		}
		same[why] = append(same[why], p.String())
	}
	text := "stopped, but not read to be withdrawn after " + after
	for _, why := range order {
		text += "; " + strings.Join(same[why], ", ") + " still read " + why
	}
	return text + ". As vouch ends, " + wayOut
}

// whyText says why a prefix is not as it ought to be, as far as that is known.
func (ps *prefix) whyText() string {
	detail := state.Clean(ps.Detail)
	if ps.out == nil || ps.out.Err == nil {
		return detail
	}
	why := state.Clean(ps.out.Err.Error())
	if detail != "" && !strings.Contains(why, detail) {
		why += "; " + detail
	}
	return why
}
