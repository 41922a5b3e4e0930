package checks

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

type once func(context.Context) error

func (f once) Check(ctx context.Context) error { return f(ctx) }
func (f once) String() string                  { return "once" }

func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		start := time.Now()
		var ended []int
		got := Once(t.Context(), []Probe{
			{Name: "ok", Timeout: time.Second, Checker: once(func(context.Context) error { return nil })},
			{Name: "slow", Timeout: time.Second, Checker: once(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })},
			{Name: "panic", Timeout: time.Second, Checker: once(func(context.Context) error { time.Sleep(time.Millisecond); panic("broken") })},
			{Name: "deaf", Timeout: time.Second, Checker: once(func(context.Context) error { <-release; return nil })},
			{Name: "no", Timeout: time.Second, Checker: once(func(context.Context) error { time.Sleep(2 * time.Millisecond); return errors.New("no") })},
			{Name: "gone", Timeout: time.Second, Checker: once(func(context.Context) error { time.Sleep(3 * time.Millisecond); runtime.Goexit(); return nil })},
		}, Look{Ended: func(i int) { ended = append(ended, i) }})
		if took := time.Since(start); took != time.Second+grace {
			t.Errorf("took %s, want the one timeout and the grace", took)
		}
		for i, want := range []Reason{"", ReasonTimeout, ReasonPanic, ReasonTimeout, ReasonError, ReasonPanic} {
			if r := got[i].Reason(); r != want {
				t.Errorf("result %d is %q, want %q", i, r, want)
			}
			if got[i].Trace != nil {
				t.Errorf("result %d has a trace that nobody asked for", i)
			}
		}
		if want := []int{0, 2, 4, 5, 1, 3}; !slices.Equal(ended, want) {
			t.Errorf("the ends came as %v, want %v", ended, want)
		}
		close(release)
	})
}

// What has ended in time is not given up because nobody looked for a while.
func TestOnceTakesWhatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quick := Probe{Timeout: time.Millisecond, Checker: once(func(context.Context) error { return nil })}
		slow := Probe{Timeout: time.Minute, Checker: once(func(context.Context) error { time.Sleep(30 * time.Second); return nil })}
		got := Once(t.Context(), append(slices.Repeat([]Probe{quick}, 20), slow), Look{Ended: func(int) { time.Sleep(time.Second) }})
		for i, r := range got {
			if want := map[bool]time.Duration{true: 30 * time.Second}[i == 20]; r.Err != nil || r.Took != want {
				t.Errorf("result %d: %v after %s, want %s", i, r.Err, r.Took, want)
			}
		}
	})
}

// Where nobody looked for a while the checks did not get to run either: they may still end in their own words.
func TestOnceLooksLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own, release := errors.New("no answer"), make(chan struct{})
		got := Once(t.Context(), []Probe{
			{Name: "quick", Timeout: time.Second, Checker: once(func(context.Context) error { return nil })},
			{Name: "late", Timeout: time.Second, Checker: once(func(context.Context) error { time.Sleep(2100 * time.Millisecond); return own })},
			{Name: "deaf", Timeout: time.Second, Checker: once(func(context.Context) error { <-release; return nil })},
		}, Look{Ended: func(i int) {
			if i == 0 {
				time.Sleep(2 * time.Second)
			}
		}})
		close(release)
		if late, deaf := got[1], got[2]; !errors.Is(late.Err, own) || deaf.Reason() != ReasonTimeout || deaf.Took != 3*time.Second+grace {
			t.Errorf("late: %v; deaf: %v after %s", late.Err, deaf.Err, deaf.Took)
		}
	})
}

// Each check's trace is its own, whatever becomes of the check.
func TestOnceTraces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, over := make(chan struct{}), make(chan struct{})
		told := func(end func(ctx context.Context) error) once {
			return func(ctx context.Context) error {
				Tracef(ctx, Sent, "ask %d", 1)
				time.Sleep(time.Millisecond)
				Tracef(ctx, Got, "two\nlines")
				return end(ctx)
			}
		}
		got := Once(t.Context(), []Probe{
			{Name: "ok", Timeout: time.Second, Checker: told(func(context.Context) error { return nil })},
			{Name: "panic", Timeout: time.Second, Checker: told(func(context.Context) error { panic("broken") })},
			{Name: "silent", Timeout: time.Second, Checker: once(func(context.Context) error { return nil })},
			{Name: "deaf", Timeout: time.Second, Checker: told(func(ctx context.Context) error {
				<-release
				Tracef(ctx, Note, "too late")
				close(over)
				return nil
			})},
		}, Look{Trace: true})
		close(release)
		<-over
		want := []Line{{0, Sent, "ask 1"}, {time.Millisecond, Got, "two\nlines"}}
		for i, lines := range [][]Line{want, want, nil, want} {
			if diff := cmp.Diff(lines, got[i].Trace); diff != "" {
				t.Errorf("trace %d: %s", i, diff)
			}
		}
	})
}

// A check that talks without end costs no more than the cap, and says so.
func TestTraceIsCapped(t *testing.T) {
	text := strings.Repeat("x", 1000)
	got := Once(t.Context(), []Probe{{Name: "talks", Timeout: time.Minute, Checker: once(func(ctx context.Context) error {
		for range 10 * maxTrace / len(text) {
			Tracef(ctx, Got, "%s", text)
		}
		return nil
	})}}, Look{Trace: true})
	lines := got[0].Trace
	if n := len(lines); n != maxTrace/1001+1 {
		t.Fatalf("%d lines were kept", n)
	}
	if last := lines[len(lines)-1]; last.Direction != Note || last.Text != "the check tells more than is kept" {
		t.Errorf("the last line is %q", last.Text)
	}
}

// A check that was left behind may go on telling while its trace is read.
func TestTraceOfOneLeftBehindIsNotWritten(t *testing.T) {
	stop, over := make(chan struct{}), make(chan struct{})
	got := Once(t.Context(), []Probe{{Name: "deaf", Timeout: time.Millisecond, Checker: once(func(ctx context.Context) error {
		defer close(over)
		for {
			select {
			case <-stop:
				return nil
			default:
				Tracef(ctx, Got, "on and on")
			}
		}
	})}}, Look{Trace: true})
	before := len(got[0].Trace)
	for i := range got[0].Trace {
		got[0].Trace[i].Text = ""
	}
	close(stop)
	<-over
	if got[0].Reason() != ReasonTimeout || before == 0 || len(got[0].Trace) != before {
		t.Errorf("%s, %d lines, now %d", got[0].Reason(), before, len(got[0].Trace))
	}
}

func TestNothingIsHeardAfterTheEnd(t *testing.T) {
	var log tracer
	log.hear(Sent, "one")
	first := log.end()
	log.hear(Got, "two")
	if last := log.end(); len(first) != 1 || len(last) != 1 {
		t.Errorf("%d lines at the end, and %d later", len(first), len(last))
	}
}
