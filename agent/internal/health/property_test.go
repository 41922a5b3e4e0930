package health

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"
)

// A round is what the checker of properties remembers of one Step.
type round struct {
	at  time.Time
	o   Outcome
	cut bool // what came before does not count towards what comes after
}

// A checker holds a whole history and derives from it, by looking back, what Step may do.
type checker struct {
	t       testing.TB
	s       Settings
	st      State
	now     time.Time
	history []round
}

// run gives how many rounds of outcome o stand at the end of the history, those too close together
// left out.
func (c *checker) run(o Outcome) int {
	first := len(c.history)
	for first > 0 {
		r := c.history[first-1]
		if r.o != o && r.o != Undecided || r.cut {
			break
		}
		first--
	}
	n, last := 0, time.Time{}
	for _, r := range c.history[first:] {
		if r.o == o && (n == 0 || r.at.Sub(last) >= c.s.fast()/2) {
			n, last = n+1, r.at
		}
	}
	return n
}

// unknownFor gives how long the rounds at the end of the history have been undecided.
func (c *checker) unknownFor() time.Duration {
	lasted := time.Duration(-1)
	for i := len(c.history) - 1; i >= 0 && c.history[i].o == Undecided && !c.history[i].cut; i-- {
		lasted = c.now.Sub(c.history[i].at)
	}
	return lasted
}

// step advances the clock, takes in o and checks every property.
func (c *checker) step(d time.Duration, o Outcome) {
	c.t.Helper()
	c.now = c.now.Add(d)
	if n := len(c.history); n > 0 && (d < 0 || d > 3*c.s.Interval+gapMargin) {
		c.history = append(c.history, round{cut: true})
	}
	c.history = append(c.history, round{at: c.now, o: o})
	before, held := c.st, c.st.HoldUntil.Sub(c.now)
	c.st = c.s.Step(before, c.now, o)
	if again := c.s.Step(before, c.now, o); again != c.st {
		c.t.Fatalf("Step is not deterministic: %+v, then %+v", c.st, again)
	}
	good, bad := c.run(Good), c.run(Bad)
	withdraws := c.s.OnUnknown == Withdraw && c.s.UnknownAfter > 0 && c.unknownFor() >= c.s.UnknownAfter
	switch {
	case before.Verdict != Up && c.st.Verdict == Up && (good < c.s.Rise || held > 0 && held <= before.Hold):
		c.t.Fatalf("up after %d good rounds (rise %d), %s before the end of hold-down: %+v", good, c.s.Rise, held, before)
	case before.Verdict != Down && c.st.Verdict == Down && bad < c.s.Fall && !withdraws:
		c.t.Fatalf("down after %d bad rounds (fall %d), unknown for %s: %+v", bad, c.s.Fall, c.unknownFor(), before)
	case (bad >= c.s.Fall || withdraws) && c.st.Verdict != Down:
		c.t.Fatalf("still %s after %d bad rounds (fall %d), withdraws %t", c.st.Verdict, bad, c.s.Fall, withdraws)
	case c.st.Verdict == Unknown && before.Verdict != Unknown:
		c.t.Fatal("back to unknown")
	case c.st.HoldUntil.Sub(c.now) > c.st.Hold:
		c.t.Fatalf("held down for %s, more than %s", c.st.HoldUntil.Sub(c.now), c.st.Hold)
	}
	if before.Verdict != Down && c.st.Verdict == Down {
		c.history = append(c.history, round{cut: true})
		if bad >= c.s.Fall { // the bad rounds themselves go on counting
			c.history = append(c.history, round{at: c.now, o: Bad})
		}
		c.checkHold(before)
	}
	if next := c.s.Next(c.st, o); next < c.s.fast() || next > max(c.s.Interval, c.s.fast()) {
		c.t.Fatalf("next round in %s", next)
	}
}

// checkHold checks the hold-down of a service that just went down.
func (c *checker) checkHold(before State) {
	c.t.Helper()
	got := c.st.HoldUntil.Sub(c.now)
	switch {
	case before.Verdict != Up || c.s.HoldDown == 0:
		if got > 0 {
			c.t.Fatalf("held down for %s after %s with hold_down %s", got, before.Verdict, c.s.HoldDown)
		}
	case got < c.s.HoldDown, c.s.HoldDownMax > 0 && got > c.s.HoldDownMax, before.Hold > 0 && got > 2*before.Hold:
		c.t.Fatalf("held down for %s, last for %s, rules %+v", got, before.Hold, c.s)
	}
}

// restart carries the state over a restart of the agent: times lose their monotonic reading.
func (c *checker) restart() {
	c.t.Helper()
	b, err := json.Marshal(c.st)
	if err != nil {
		c.t.Fatal(err)
	}
	c.st = State{}
	if err := json.Unmarshal(b, &c.st); err != nil {
		c.t.Fatal(err)
	}
}

// finish checks that good rounds alone always bring the service up.
func (c *checker) finish() {
	c.t.Helper()
	wait := c.s.Rise + 2 + int(c.st.Hold/max(c.s.Interval, 1))
	for range wait {
		c.step(max(c.s.Interval, 1), Good)
	}
	if c.st.Verdict != Up {
		c.t.Fatalf("locked up: %s after %d good rounds: %+v", c.st.Verdict, wait, c.st)
	}
}

// play reads rules and a history of rounds from b and checks them.
func play(t testing.TB, b []byte) {
	t.Helper()
	at := func(i int) int { return int(b[i%len(b)]) }
	s := Settings{
		Rise: 1 + at(0)%4, Fall: 1 + at(1)%4,
		Interval: time.Second, Fast: time.Duration(at(2)%6) * 200 * time.Millisecond,
		HoldDown: time.Duration(at(3)%3) * 5 * time.Second, HoldDownCalm: time.Duration(at(4)%4) * 4 * time.Second,
		UnknownAfter: time.Duration(at(5)%4) * time.Second, OnUnknown: OnUnknown(at(6) % 2),
	}
	if at(7)%2 == 0 {
		s.HoldDownMax = 20 * time.Second
	}
	steps := [...]time.Duration{time.Millisecond, 0, s.fast() / 2, s.fast(), s.Interval, s.Interval, 2 * s.Interval, 9 * time.Second, -time.Minute, time.Hour}
	c := &checker{t: t, s: s, now: start}
	for _, x := range b {
		if x >= 250 {
			c.restart()
			continue
		}
		c.step(steps[int(x)/3%len(steps)], Outcome(x%3))
	}
	c.finish()
}

func TestProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		b := make([]byte, 8+r.IntN(60))
		bias := byte(r.IntN(4))
		for i := range b {
			b[i] = byte(r.IntN(256))
			if bias > 0 && b[i] < 250 && r.IntN(3) > 0 { // long runs of one outcome and of one step
				b[i] = bias%3 + 3*byte(3+r.IntN(3))
			}
		}
		play(t, b)
	}
}

func FuzzStep(f *testing.F) {
	f.Add([]byte("a service that flaps"))
	f.Add([]byte{1, 1, 1, 2, 2, 3, 1, 0, 13, 13, 13, 14, 14, 14, 255, 13, 13, 13, 26})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 0 && len(b) < 400 {
			play(t, b)
		}
	})
}
