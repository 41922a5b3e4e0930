package agent

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"vouch/agent/internal/state"
	"vouch/routers"
)

const (
	// examinePatience bounds one examination.
	examinePatience = 10 * time.Second
	// examinePause is the least time between two examinations: a daemon that comes and goes must not
	// be asked all these questions each time.
	examinePause = time.Minute
	// examineEvery is the time to the next examination as long as one has found something.
	examineEvery = 10 * time.Minute
	// mostFindings are told one by one.
	mostFindings = 8
)

// An examination has the router examined when asked, in a task of its own: it may take long, and
// nothing waits for it.
type examination struct {
	router routers.Examiner
	asked  chan struct{} // has room for one
	ps     func() []netip.Prefix
	// found takes in what was found, and whether that is all there is; it says whether it is worth
	// looking again later, because something may have been put right.
	found func(fs []routers.Finding, all bool) bool
}

// ask asks for an examination. It does not block.
func (e *examination) ask() {
	select {
	case e.asked <- struct{}{}:
	default:
	}
}

// run examines when asked, and again from time to time while something is found, until ctx ends.
func (e *examination) run(ctx context.Context) error {
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.asked:
		case <-again:
		}
		fs, all, err := e.examine(ctx)
		if err != nil || ctx.Err() != nil {
			return err
		}
		again = nil
		if e.found(fs, all) {
			again = time.After(examineEvery)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(examinePause):
		}
	}
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

// onFindings takes in what an examination found. What may hurt is told once and stays a problem until
// an examination that was done to the end no longer finds it. It says whether another one is worth while.
func (c *core) onFindings(fs []routers.Finding, all bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	fs, more := worst(fs)
	stands := map[string]bool{}
	for _, f := range fs {
		text := findingText(f)
		stands[text] = true
		if c.found[text] {
			continue
		}
		level := "warn"
		if f.Severity == routers.Failing {
			level = "error"
		}
		c.event(state.Event{Level: level, Kind: state.KindFinding, Reason: f.Severity.String(), Text: text})
		c.problem("finding "+text, text)
	}
	for text := range c.found {
		switch {
		case stands[text]:
		case !all:
			stands[text] = true
		default:
			c.problem("finding "+text, "")
			c.event(state.Event{Level: "info", Kind: state.KindFinding, Reason: routers.Fine.String(), Text: "no longer found: " + text})
		}
	}
	c.found = stands
	c.problem("findings", "")
	if more > 0 {
		c.problem("findings", fmt.Sprintf("%d more things were found about the routing daemon: see vouch doctor", more))
	}
	c.store.Touch()
	return len(stands) > 0 || !all
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
