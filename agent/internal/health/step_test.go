package health

import (
	"slices"
	"strings"
	"testing"
	"time"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// steady has neither hold-down nor a limit to unknown.
func steady(rise, fall int) Settings {
	return Settings{Rise: rise, Fall: fall, Interval: time.Second, Fast: 200 * time.Millisecond}
}

// feed runs the letters g, b and u (undecided) through Step, every so far apart.
func feed(s Settings, st State, from time.Time, every time.Duration, letters string) (State, time.Time) {
	for _, l := range letters {
		from = from.Add(every)
		st = s.Step(st, from, Outcome(strings.IndexRune("ugb", l)))
	}
	return st, from
}

// oracle says what a history of decided rounds, each of which counts, comes to: the last place in it
// where enough of one letter stand together decides.
func oracle(rise, fall int, decided string) Verdict {
	up := strings.LastIndex(decided, "ggg"[:rise]) + rise
	down := strings.LastIndex(decided, "bbb"[:fall]) + fall
	switch {
	case up < rise && down < fall:
		return Unknown
	case down < fall || up >= rise && up > down:
		return Up
	}
	return Down
}

func TestStepMatchesOracleOnAllSequences(t *testing.T) {
	const length = 12
	for rise := 1; rise <= 3; rise++ {
		for fall := 1; fall <= 3; fall++ {
			s, n := steady(rise, fall), length
			if rise+fall < 6 {
				n = 9 // the longest rules need the longest histories
			}
			var walk func(left int, st State, decided string)
			walk = func(left int, st State, decided string) {
				if got, want := st.Verdict, oracle(rise, fall, decided); got != want {
					t.Fatalf("rise %d fall %d: %s: verdict %s, want %s", rise, fall, decided, got, want)
				}
				if left == 0 {
					return
				}
				now := start.Add(time.Duration(n-left) * s.Interval)
				walk(left-1, s.Step(st, now, Undecided), decided)
				walk(left-1, s.Step(st, now, Good), decided+"g")
				walk(left-1, s.Step(st, now, Bad), decided+"b")
			}
			walk(n, State{}, "")
		}
	}
}

func TestEventsOfOneFaultAreOneRound(t *testing.T) {
	s := steady(2, 3)
	up, now := feed(s, State{}, start, time.Second, "gg")
	if up.Verdict != Up {
		t.Fatalf("verdict %s, want up", up.Verdict)
	}
	st, now := feed(s, up, now, time.Millisecond, "bbbbbbbbbb")
	if st.Verdict != Up || st.Bad != 1 {
		t.Errorf("ten bad rounds within 10 ms: verdict %s, bad %d; want up, 1", st.Verdict, st.Bad)
	}
	st, _ = feed(s, st, now, s.Fast/2, "bb")
	if st.Verdict != Down {
		t.Errorf("three bad rounds half of fast apart: verdict %s, want down", st.Verdict)
	}
	if st, _ := feed(s, up, now, time.Millisecond, "bgbgbgb"); st.Verdict != Up || st.Bad != 1 {
		t.Errorf("alternating: verdict %s, bad %d; want up, 1", st.Verdict, st.Bad)
	}
	fall1 := steady(2, 1)
	if st, _ := feed(fall1, up, now, time.Millisecond, "b"); st.Verdict != Down {
		t.Errorf("fall 1: verdict %s after one bad round, want down", st.Verdict)
	}
}

func TestUndecidedHolds(t *testing.T) {
	s := steady(2, 2)
	st, now := feed(s, State{}, start, time.Second, "ggbu")
	if st.Verdict != Up || st.Bad != 1 || !st.UnknownSince.Equal(now) {
		t.Errorf("state %+v; want up, one bad round, unknown since %s", st, now)
	}
	if st, _ := feed(s, st, now, time.Second, "ub"); st.Verdict != Down || !st.UnknownSince.IsZero() {
		t.Errorf("state %+v; want down and no longer unknown", st)
	}
}

func TestLastingUnknown(t *testing.T) {
	for _, tc := range []struct {
		name    string
		on      OnUnknown
		before  string
		rounds  string
		verdict Verdict
	}{
		{"hold", Hold, "ggg", "uuuuuuuuuuuuu", Up},
		{"withdraw, not yet", Withdraw, "ggg", "uuuuuuuuuu", Up},
		{"withdraw", Withdraw, "ggg", "uuuuuuuuuuu", Down},
		{"withdraw from the start", Withdraw, "", "uuuuuuuuuuu", Down},
		{"interrupted by a good round", Withdraw, "ggg", "uuuuuugu", Up},
		{"and good rounds must rise anew", Withdraw, "ggg", "uuuuuuuuuuug", Down},
		{"and then they do", Withdraw, "ggg", "uuuuuuuuuuugg", Up},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := steady(2, 2)
			s.OnUnknown, s.UnknownAfter = tc.on, 10*time.Second
			st, _ := feed(s, State{}, start, time.Second, tc.before+tc.rounds)
			if st.Verdict != tc.verdict {
				t.Errorf("verdict %s, want %s", st.Verdict, tc.verdict)
			}
		})
	}
}

func TestPauseRestartsTheCount(t *testing.T) {
	s := steady(3, 3)
	up, now := feed(s, State{}, start, time.Second, "ggg")
	bad, now := feed(s, up, now, time.Second, "bb")
	for _, tc := range []struct {
		name  string
		pause time.Duration
		want  Verdict
	}{
		{"late", 8 * time.Second, Down},
		{"suspended", 8*time.Second + 1, Up},
		{"set back", -time.Hour, Up},
	} {
		st := s.Step(bad, now.Add(tc.pause), Bad)
		if st.Verdict != tc.want {
			t.Errorf("%s: verdict %s with %d bad, want %s", tc.name, st.Verdict, st.Bad, tc.want)
		}
	}
	if st := s.Step(State{LastRound: now, Good: 2}, now.Add(-time.Hour), Good); st.Verdict != Unknown || st.Good != 1 {
		t.Errorf("clock set back: verdict %s, good %d; want unknown, 1", st.Verdict, st.Good)
	}
}

func TestHoldDown(t *testing.T) {
	s := steady(1, 1)
	s.HoldDown, s.HoldDownMax, s.HoldDownCalm = 10*time.Second, time.Minute, 5*time.Minute
	var got, lasted []time.Duration
	st, now := feed(s, State{}, start, time.Second, "g")
	fail := func(after time.Duration) {
		for now = now.Add(after); st.Verdict != Down; now = now.Add(time.Second) {
			st = s.Step(st, now, Bad)
		}
		down := st.Since
		got = append(got, st.HoldUntil.Sub(down))
		for ; st.Verdict != Up; now = now.Add(time.Second) {
			st = s.Step(st, now, Good)
		}
		lasted = append(lasted, st.Since.Sub(down))
	}
	for _, after := range []time.Duration{time.Second, time.Second, time.Second, time.Second, 5 * time.Minute, 11 * time.Minute, time.Hour} {
		fail(after)
	}
	want := []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, time.Minute, 30 * time.Second, 10 * time.Second, 10 * time.Second}
	if !slices.Equal(got, want) {
		t.Errorf("hold-downs %v, want %v", got, want)
	}
	if !slices.Equal(lasted, want) {
		t.Errorf("down for %v, want %v", lasted, want)
	}
}

func TestHoldDownDelaysOnlyRise(t *testing.T) {
	s := steady(2, 2)
	s.HoldDown = 10 * time.Second
	st, now := feed(s, State{}, start, time.Second, "ggbb")
	end := now.Add(10 * time.Second)
	if !st.HoldUntil.Equal(end) {
		t.Fatalf("hold-down until %s, want %s", st.HoldUntil, end)
	}
	st, now = feed(s, st, now, time.Second, "ggggggggg")
	if st.Verdict != Down || st.Good != 9 {
		t.Errorf("verdict %s, good %d while held down; want down, 9", st.Verdict, st.Good)
	}
	if st, _ = feed(s, st, now, time.Second, "g"); st.Verdict != Up || !st.HoldUntil.IsZero() {
		t.Errorf("at its end: verdict %s, hold until %s; want up, none", st.Verdict, st.HoldUntil)
	}
	if st, _ := feed(s, State{}, start, time.Second, "bb"); st.Verdict != Down || !st.HoldUntil.IsZero() {
		t.Errorf("unknown to down: %+v; want no hold-down", st)
	}
}

func TestClockSetBackDoesNotStretchHoldDown(t *testing.T) {
	s := steady(1, 1)
	s.HoldDown = 10 * time.Second
	st, now := feed(s, State{}, start, time.Second, "gb")
	now = now.Add(-time.Hour)
	st, now = feed(s, st, now, time.Second, "gggggggggg")
	if st.Verdict != Down {
		t.Fatalf("verdict %s within the hold-down, want down", st.Verdict)
	}
	if st, _ = feed(s, st, now, time.Second, "g"); st.Verdict != Up {
		t.Errorf("verdict %s an hour early, want up", st.Verdict)
	}
}

func TestNext(t *testing.T) {
	s := steady(2, 3)
	s.Interval = 10 * time.Second
	held := func(good int, left time.Duration) State {
		return State{Verdict: Down, Good: good, LastRound: start, HoldUntil: start.Add(left), Hold: time.Minute}
	}
	for _, tc := range []struct {
		name string
		st   State
		o    Outcome
		want time.Duration
	}{
		{"at the start", State{}, Undecided, s.Interval},
		{"first good", State{Good: 1}, Good, s.Fast},
		{"first bad", State{Bad: 1}, Bad, s.Fast},
		{"up and good", State{Verdict: Up, Good: 5}, Good, s.Interval},
		{"up and bad", State{Verdict: Up, Bad: 1}, Bad, s.Fast},
		{"up and undecided", State{Verdict: Up, Good: 3}, Undecided, s.Interval},
		{"undecided amid bad", State{Verdict: Up, Bad: 1}, Undecided, s.Fast},
		{"down and bad", State{Verdict: Down, Bad: 4}, Bad, s.Interval},
		{"down and good", State{Verdict: Down, Good: 1}, Good, s.Fast},
		{"held down, rising", held(1, time.Minute), Good, s.Fast},
		{"held down, risen", held(2, time.Minute), Good, s.Interval},
		{"held down, near the end", held(9, 3*time.Second), Good, 3 * time.Second},
		{"held down, at the end", held(9, time.Millisecond), Good, s.Fast},
	} {
		if got := s.Next(tc.st, tc.o); got != tc.want {
			t.Errorf("%s: next in %s, want %s", tc.name, got, tc.want)
		}
	}
	s.Fast = 0
	if got := s.Next(State{Verdict: Up, Bad: 1}, Bad); got != s.Interval {
		t.Errorf("without fast: next in %s, want the interval", got)
	}
}

func TestRisesAtTheEndOfHoldDown(t *testing.T) {
	s := steady(2, 2)
	s.Interval, s.HoldDown = 10*time.Second, 34*time.Second
	st, now := feed(s, State{}, start, 10*time.Second, "ggbb")
	for o := Good; st.Verdict == Down; {
		now = now.Add(s.Next(st, o))
		st = s.Step(st, now, o)
	}
	if got := now.Sub(start.Add(40*time.Second + s.HoldDown)); got != 0 {
		t.Errorf("up %s after the end of the hold-down, want at once", got)
	}
}
