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

// onFindings takes in what an examination found. What may hurt is told once and stands until an
// examination that was done to the end no longer finds it: as a problem when something cannot work, else as
// a warning. It says whether another examination is worth while.
func (c *core) onFindings(fs []routers.Finding, all bool) bool {
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
	c.found = stands
	c.store.Touch()
	return len(stands) > 0 || !all
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
