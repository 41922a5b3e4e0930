package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"vouch/agent/internal/state"
	"vouch/routers"
)

const (
	// examinePatience bounds one examination.
	examinePatience = 10 * time.Second
	// leastPause and mostPause are between an examination and the next that is asked for. A daemon that comes and
	// goes must not be asked all these questions each time: the pause doubles until nothing was asked for examineCalm.
	leastPause  = 2 * time.Second
	mostPause   = 16 * time.Second
	examineCalm = time.Minute
	// examineSoon is the time to the next examination while something is found, which somebody may be putting
	// right: twice as long each time that the same is found, up to examineEvery.
	examineSoon  = 15 * time.Second
	examineEvery = 2 * time.Minute
	// examineRest is that time while nothing is found: the daemon's configuration may be changed.
	examineRest = 10 * time.Minute
	// mostFindings are told one by one.
	mostFindings = 8
)

// An outlook says what an examination has left.
type outlook uint8

const (
	allWell    outlook = iota // nothing is found
	sameFound                 // the same as by the one before
	otherFound                // something else
)

// An examination has the router examined when asked, in a task of its own: it may take long, and
// nothing waits for it.
type examination struct {
	router routers.Examiner
	asked  chan struct{} // has room for one
	ps     func() []netip.Prefix
	// found takes in what was found, and whether that is all there is.
	found func(fs []routers.Finding, all bool) outlook
}

// ask asks for an examination. It does not block.
func (e *examination) ask() {
	select {
	case e.asked <- struct{}{}:
	default:
	}
}

// run examines when asked, and again from time to time, until ctx ends.
func (e *examination) run(ctx context.Context) error {
	var again <-chan time.Time
	var wait, pause time.Duration
	var last time.Time // when one was asked for
	for {
		asked := false
		select {
		case <-ctx.Done():
			return nil
		case <-e.asked:
			asked = true
		case <-again:
		}
		name := e.name()
		fs, all, err := e.examine(ctx)
		if err != nil || ctx.Err() != nil {
			return err
		}
		wait = next(wait, e.found(fs, all))
		again = time.After(wait)
		if asked {
			pause = longer(pause, time.Since(last))
			last = time.Now()
			e.pause(ctx, name, pause)
		}
	}
}

// next is the time to the next examination, where it was wait to the last.
func next(wait time.Duration, o outlook) time.Duration {
	switch {
	case o == allWell:
		return examineRest
	case o == otherFound, wait < examineSoon, wait > examineEvery:
		return examineSoon
	}
	return min(2*wait, examineEvery)
}

// longer is the pause after an examination that was asked for so long after the one before.
func longer(pause, since time.Duration) time.Duration {
	if since > examineCalm {
		return leastPause
	}
	return max(leastPause, min(2*pause, mostPause))
}

// pause waits until another examination may be made. One that is asked for meanwhile is kept. It does not wait
// where the router has become another one, as when another daemon was found: then what was found of the one
// before is not true any more.
func (e *examination) pause(ctx context.Context, name string, d time.Duration) {
	over := time.NewTimer(d)
	defer over.Stop()
	asked := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.asked:
			if asked = true; e.name() != name {
				e.ask()
				return
			}
		case <-over.C:
			if asked {
				e.ask()
			}
			return
		}
	}
}

// name is that of the router as it is now.
func (e *examination) name() string {
	if s, ok := e.router.(fmt.Stringer); ok {
		return s.String()
	}
	return ""
}

// examine examines once, to the end or as far as it comes in examinePatience. A panic of the driver is an
// error: it must not end the agent.
func (e *examination) examine(ctx context.Context) (fs []routers.Finding, all bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, examinePatience)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	fs = e.router.Examine(ctx, e.ps())
	return fs, ctx.Err() == nil, nil
}

// managed gives all managed prefixes, sorted.
func (c *core) managed() []netip.Prefix {
	c.mu.Lock()
	defer c.mu.Unlock()
	ps := make([]netip.Prefix, 0, len(c.desired))
	for p := range c.desired {
		ps = append(ps, p)
	}
	slices.SortFunc(ps, netip.Prefix.Compare)
	return ps
}

// onFindings takes in what an examination found. What may hurt is told once and stands until an
// examination that was done to the end no longer finds it: as a problem when something cannot work, else as
// a warning. It says whether another examination is worth while.
func (c *core) onFindings(fs []routers.Finding, all bool) outlook {
	c.mu.Lock()
	defer c.mu.Unlock()
	fs, c.untold = worst(fs)
	stands := map[string]routers.Severity{}
	for _, f := range fs {
		text := findingText(f)
		stands[text] = f.Severity
		if c.found[text] != f.Severity {
			c.event(state.Event{Level: findingLevel(f.Severity), Kind: state.KindFinding, Reason: f.Severity.String(), Text: text})
		}
	}
	for text, severity := range c.found {
		if _, still := stands[text]; still {
			continue
		}
		if !all {
			stands[text] = severity
			continue
		}
		c.event(state.Event{Level: "info", Kind: state.KindFinding, Reason: routers.Fine.String(), Text: "no longer found: " + text})
	}
	before := c.found
	c.found = stands
	c.store.Touch()
	switch {
	case len(stands) == 0 && all:
		return allWell
	case maps.Equal(before, stands):
		return sameFound
	}
	return otherFound
}

// otherwise says whether a reading shows something that findings may be about otherwise than the one before did:
// the prefix, or one of its peers.
func otherwise(old, o routers.Observation) bool {
	return old.Stage != o.Stage || old.Detail != o.Detail || !slices.Equal(old.Peers, o.Peers)
}

func findingLevel(s routers.Severity) string {
	if s == routers.Failing {
		return "error"
	}
	return "warn"
}

// foundAs gives the findings of one severity that stand, sorted.
func (c *core) foundAs(s routers.Severity) []string {
	texts := []string{}
	for text, severity := range c.found {
		if severity == s {
			texts = append(texts, text)
		}
	}
	slices.Sort(texts)
	return texts
}

// warnings lists the findings that are no problem yet, and says when there are more findings than are told.
func (c *core) warnings() []string {
	texts := c.foundAs(routers.Warning)
	if c.untold > 0 {
		texts = append(texts, fmt.Sprintf("%d more things were found about the routing daemon: see vouch doctor", c.untold))
	}
	return texts
}

// worst gives those findings that may hurt, each once, the worst first, and how many are left out.
func worst(fs []routers.Finding) ([]routers.Finding, int) {
	fs = slices.DeleteFunc(slices.Clone(fs), func(f routers.Finding) bool { return f.Severity < routers.Warning })
	slices.SortFunc(fs, func(a, b routers.Finding) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(findingText(a), findingText(b)))
	})
	fs = slices.CompactFunc(fs, func(a, b routers.Finding) bool { return findingText(a) == findingText(b) })
	n := min(len(fs), mostFindings)
	return fs[:n], len(fs) - n
}

// findingText is a finding as one line.
func findingText(f routers.Finding) string {
	text := f.Subject + ": " + f.Text
	if f.WayOut != "" {
		text += "; " + f.WayOut
	}
	return state.Clean(text)
}
