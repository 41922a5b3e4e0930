package main

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/lab"
)

// One row of each: a driver that commits nothing, one that does, and the script.
func TestVyOSSite(t *testing.T) {
	lab.Require(t)
	r, s := report{part: "drivers"}, vyosBGP()
	s.subjects = s.subjects[:2]
	if err := (&bench{runs: 1}).at(t.Context(), []site{s}, &r); err != nil {
		t.Error(err)
	}
	var what []string
	for _, w := range r.rows {
		if w.Runs != 1 || w.Median <= 0 || w.Lacks != "" {
			t.Errorf("%+v", w)
		}
		_, last, _ := strings.Cut(w.What, " VyOS ")
		what = append(what, last)
		// What is in a commit takes as long as one.
		commits := strings.HasPrefix(w.What, "  instead: ") || strings.HasSuffix(w.What, "configuration") || strings.HasSuffix(w.What, "static via config, BGP: there at the core")
		if least := float64(commitTime.Milliseconds()) / 2; commits && w.Median < least {
			t.Errorf("%s took %v ms", w.What, w.Median)
		}
	}
	if gone, committed := r.rows[2], r.rows[4]; gone.Median >= committed.Median {
		t.Errorf("the core lost it after %v ms, the configuration after %v", gone.Median, committed.Median)
	}
	want := "kernel, BGP: gone at the core|kernel, BGP: there at the core|" +
		"1.4 static via config, BGP: gone at the core||1.4 static via config, BGP: gone from VyOS's configuration||" +
		"1.4 static via config, BGP: there at the core||1.4 static via config, BGP: in VyOS's configuration|"
	if got := strings.Join(what, "|"); got != want {
		t.Errorf("rows:\n%s, want\n%s", got, want)
	}
}

// A keeping is a driver with a configuration that follows when the test says.
type keeping struct {
	routeRouter
	follows func(ctx context.Context, there bool) error
}

func (k *keeping) kept(ctx context.Context, _ netip.Prefix, there bool) error {
	return k.follows(ctx, there)
}

func TestKeptIsMeasured(t *testing.T) {
	c, set := followed(t)
	c.bound = 30 * time.Second
	c.took = &times{core: map[routers.Want]*tally{}, config: map[routers.Want]*tally{routers.Announced: {}, routers.Withdrawn: {}}}
	k := &keeping{}
	k.apply = func(w routers.Want) error {
		if k.stage = routers.Advertised; w == routers.Withdrawn {
			k.stage = routers.Absent
			return set("del")
		}
		return set("add")
	}
	k.follows = func(_ context.Context, there bool) error {
		if !there {
			return errors.New("it did not")
		}
		return nil
	}
	c.router = k
	for _, w := range []routers.Want{routers.Announced, routers.Withdrawn} {
		if _, err := c.change(t.Context(), w); err != nil {
			t.Error(err)
		}
	}
	if got := c.took.config[routers.Announced]; len(got.times) != 1 || got.times[0] <= 0 || got.failed != 0 {
		t.Errorf("%+v", got)
	}
	if got := c.took.config[routers.Withdrawn]; len(got.times) != 0 || got.failed != 1 || got.first.Error() != "it did not" {
		t.Errorf("%+v", got)
	}
	// A change that fails is waited for no longer, and has no time.
	k.apply = func(routers.Want) error { return errors.New("no") }
	k.follows = func(ctx context.Context, _ bool) error { <-ctx.Done(); return ctx.Err() }
	if _, err := c.change(t.Context(), routers.Announced); err == nil || c.took.config[routers.Announced].failed != 0 {
		t.Errorf("%v, %+v", err, c.took.config[routers.Announced])
	}
}

func TestStandIn(t *testing.T) {
	s := &standIn{}
	var ended []string
	s.Cleanup(func() { ended = append(ended, "first"); s.Fatalf("it %s", "stays") })
	s.Cleanup(func() { ended = append(ended, "second"); s.Errorf("it hangs") })
	if err := s.try(func() { s.Fatalf("no %s", "go"); ended = append(ended, "on") }); err == nil || err.Error() != "no go" {
		t.Errorf("%v", err)
	}
	if err := s.try(func() {}); err != nil {
		t.Errorf("%v", err)
	}
	if err := s.close(); err == nil || err.Error() != "it hangs\nit stays" || strings.Join(ended, " ") != "second first" {
		t.Errorf("%v, %v", err, ended)
	}
}
