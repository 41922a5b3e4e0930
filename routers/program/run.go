package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"vouch/routers"
	"vouch/routers/command"
)

const (
	// abreast bounds how many commands run at once.
	abreast = 8
	// grace is how long after its time a command may take to be gone, once its group was killed: a busy machine was
	// seen to need half a second. One that cannot be killed, such as a program run as another user by sudo, is waited
	// for no longer.
	grace = time.Second
	// maxOutput is kept of what a command writes, from the beginning.
	maxOutput = 4 << 10
	// maxLine bounds what is shown of it, in characters.
	maxLine = 200
)

// A job is one command for one prefix.
type job struct {
	want   routers.Want
	action string
	prefix netip.Prefix
	argv   []string
}

// An end is what became of a job.
type end struct {
	job
	out command.Output
	err error // it could not be started, was cut off, or was not even tried; of a class
}

// all runs jobs side by side, withdraws first, and gives their ends, in no order that counts. Those of a
// kind are begun in the order in which their prefixes had their last turn: when the first ones hang until
// ctx ends, the rest comes first the next time.
func (r *Router) all(ctx context.Context, jobs []job) []end {
	r.byTurn(jobs)
	ends := make([]end, len(jobs))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(abreast, len(jobs)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(jobs)); i = next.Add(1) - 1 {
				ends[i] = r.run(ctx, jobs[i])
			}
		})
	}
	workers.Wait()
	return ends
}

// run runs one command, and returns soon after ctx ends or its time is over.
func (r *Router) run(ctx context.Context, j job) end {
	if ctx.Err() != nil {
		return end{job: j, err: routers.Errorf(errors.Join(routers.ErrUnavailable, ctx.Err()), "no time was left to run %s", j.argv[0])}
	}
	service, err := r.begin(j)
	if err != nil {
		return end{job: j, err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, r.options.Timeout)
	defer cancel()
	began, done := time.Now(), make(chan end, 1)
	go func() {
		out, err := command.Run(ctx, command.Spec{Path: j.argv[0], Args: j.argv[1:], MaxOutput: maxOutput, ByStatus: j.action != actionRead, Env: []string{
			"ANYCAST_PREFIX=" + j.prefix.String(), "ANYCAST_ACTION=" + j.action, "ANYCAST_SERVICE=" + service}})
		r.ended(j)
		done <- end{j, out, classed(err, began)}
	}()
	select {
	case e := <-done:
		return e
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case e := <-done:
		return e
	case <-timer.C:
	}
	r.giveUp(j)
	return end{job: j, err: routers.Errorf(errors.Join(routers.ErrUnavailable, ctx.Err()),
		"%s does not end, and cannot be killed (does it run as another user?)", j.argv[0])}
}

// classed puts the error of command.Run into a class.
func classed(err error, began time.Time) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return routers.Errorf(errors.Join(routers.ErrUnavailable, err), "killed after %s", time.Since(began).Round(10*time.Millisecond))
	case errors.Is(err, context.Canceled):
		return routers.Errorf(errors.Join(routers.ErrUnavailable, err), "broken off")
	}
	return routers.Errorf(routers.ErrUnavailable, "%w", err)
}

// failure is why a change was not made, as far as its command tells.
func (e end) failure() error {
	if e.err == nil && e.out.Code == 0 {
		return nil
	}
	class, why := error(routers.ErrUnavailable), status(e.out)
	if e.err != nil {
		class, why = e.err, e.err.Error()
	}
	return routers.Errorf(class, "program: %s %s: %s", e.action, e.prefix, with(why, said(e.out)))
}

// status says how a command ended.
func status(out command.Output) string {
	if out.Signal != 0 {
		return "killed by " + unix.SignalName(out.Signal)
	}
	return fmt.Sprintf("exit status %d", out.Code)
}

func with(what, line string) string {
	if line == "" {
		return what
	}
	return what + ": " + line
}

// said is the last line of the output that says something: of stderr, or else of stdout.
func said(out command.Output) string {
	for _, b := range [][]byte{out.Stderr, out.Stdout} {
		lines := strings.FieldsFunc(string(b), func(r rune) bool { return r == '\n' || r == '\r' })
		for _, l := range slices.Backward(lines) {
			if l = clean(l); l != "" {
				return l
			}
		}
	}
	return ""
}

// clean makes one printable line of at most maxLine characters.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r), r == unicode.ReplacementChar:
			return -1
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if rs := []rune(s); len(rs) > maxLine {
		s = string(rs[:maxLine]) + "…"
	}
	return s
}

// byTurn puts jobs in the order of their wants, and those of one want in that of their last turns.
func (r *Router) byTurn(jobs []job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortStableFunc(jobs, func(a, b job) int {
		return cmp.Or(cmp.Compare(a.want, b.want), cmp.Compare(r.record(a.prefix).turn[a.action], r.record(b.prefix).turn[b.action]))
	})
}
