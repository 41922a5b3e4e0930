package agent

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vouch/agent/internal/cli"
	"vouch/agent/internal/config"
	"vouch/agent/internal/health"
	"vouch/checks"
	"vouch/routers"
)

// A scripted Spec gives a check that does what it is told.
type scripted func(ctx context.Context) error

func (scripted) Validate() []checks.Problem        { return nil }
func (f scripted) New() (checks.Checker, error)    { return f, nil }
func (f scripted) Check(ctx context.Context) error { return f(ctx) }
func (scripted) String() string                    { return "scripted" }
func says(text string, end error) scripted {
	return func(ctx context.Context) error {
		checks.Tracef(ctx, checks.Got, "%s", text)
		return end
	}
}

var (
	errNo     = &checks.Failure{Reason: checks.ReasonRefused, Detail: "no"}
	errUnsure = &checks.Failure{Reason: checks.ReasonUnknown, Detail: "unsure"}
)

// checkable has a router that cannot be read: its program is not there.
func checkable() *config.Config {
	on := func(name string, onFail string, s scripted) config.Check {
		return config.Check{Name: name, Type: "scripted", OnFail: onFail, Timeout: time.Minute, Spec: s}
	}
	return &config.Config{File: "x.toml", Router: config.Router{Daemon: "kernel", Method: "address", Interface: "lo", Deadline: time.Second}, Services: []config.Service{
		{Name: "a", Checks: []config.Check{on("bad", "warn", says("\x1b[2J", errNo)), on("good", "withdraw", says("one\r\n\n\ttwo \xff\n", nil)),
			on("odd", "withdraw", says("", errUnsure))}},
		{Name: "b", Checks: []config.Check{on("broken", "degrade", func(context.Context) error { panic("broken") }), on("good", "withdraw", says("x", nil))}},
	}}
}

func TestCheckOnly(t *testing.T) {
	for _, c := range []struct {
		only []cli.CheckName
		ran  string
		want health.Outcome
		code int
	}{
		{[]cli.CheckName{{Service: "a", Check: "good"}}, "a/good", health.Good, 0},
		{[]cli.CheckName{{Service: "a", Check: "bad"}}, "a/bad", health.Bad, 1},
		{[]cli.CheckName{{Service: "a", Check: "odd"}, {Service: "a", Check: "good"}}, "a/good a/odd", health.Undecided, 1},
		{[]cli.CheckName{{Service: "a", Check: "odd"}, {Service: "a", Check: "bad"}}, "a/bad a/odd", health.Bad, 1},
		{[]cli.CheckName{{Service: "b", Check: "broken"}}, "b/broken", health.Bad, 1},
	} {
		var ended []string
		r, err := check(t.Context(), checkable(), cli.CheckOptions{Only: c.only, Ended: func(n cli.CheckName) { ended = append(ended, n.String()) }})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(ended)
		if got := strings.Join(ended, " "); got != c.ran {
			t.Errorf("only %v: ran %s", c.only, got)
		}
		if len(r.Services) != 1 || r.Services[0].Outcome != c.want || r.Services[0].Soft != health.Good || r.ExitCode() != c.code {
			t.Errorf("only %v: exit %d, %+v", c.only, r.ExitCode(), r.Services)
		}
		if r.Router.Name != "" || r.Services[0].Prefixes != nil || r.Services[0].Checks[0].Trace != nil {
			t.Errorf("only %v: more than that was looked at: %+v", c.only, r)
		}
	}
}

// All checks are run, of the services that are asked for; each trace is its check's own.
func TestCheckTraces(t *testing.T) {
	var mu sync.Mutex
	var ended []string
	o := cli.CheckOptions{Trace: true, Services: []string{"a"}, Ended: func(n cli.CheckName) {
		mu.Lock()
		defer mu.Unlock()
		ended = append(ended, n.String())
	}}
	r, err := check(t.Context(), checkable(), o)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(ended)
	if diff := cmp.Diff([]string{"a/bad", "a/good", "a/odd", "the router"}, ended); diff != "" {
		t.Error(diff)
	}
	var told []string
	for _, k := range r.Services[0].Checks {
		for _, l := range k.Trace {
			told = append(told, k.Name+": "+l.Text)
		}
	}
	if diff := cmp.Diff([]string{"bad: [2J", "good: one\n\ntwo \uFFFD", "odd: "}, told); diff != "" {
		t.Error(diff)
	}
	if r.Services[0].Outcome != health.Undecided || r.Router.Name == "" {
		t.Errorf("outcome %s, router %+v", r.Services[0].Outcome, r.Router)
	}
}

// A sighted router reads what it is told to.
type sighted []routers.Observation

func (r sighted) Observe(context.Context, []netip.Prefix) ([]routers.Observation, error) {
	return r, nil
}
func (sighted) Apply(context.Context, []routers.Change) error { return nil }
func (sighted) Goal() routers.Stage                           { return routers.Advertised }
func (sighted) Close() error                                  { return nil }
func (sighted) String() string                                { return "sighted" }

// A router that is read well, and by which nothing could be announced, or of which something is not known, is not fine.
func TestCheckHindered(t *testing.T) {
	hindered := func(p netip.Prefix, why string) routers.Observation {
		return routers.Observation{Prefix: p, Stage: routers.Absent, Hindered: why}
	}
	for _, c := range []struct {
		seen sighted
		want string
		code int
	}{
		{sighted{{Prefix: vip, Stage: routers.Absent, Detail: "not yet"}, {Prefix: vip2, Stage: routers.Advertised}}, "", 0},
		{sighted{hindered(vip, "no A_OFF"), {Prefix: vip2, Stage: routers.Advertised}}, "no A_OFF", 3},
		{sighted{hindered(vip, "no A_OFF"), hindered(vip2, "no A_OFF")}, "no A_OFF", 3},
		{sighted{{Prefix: vip, Stage: routers.Advertised, Hindered: "no A_OFF"}, {Prefix: vip2, Detail: "odd\x1b"}}, "no A_OFF; 10.53.53.54/32 is unknown: odd", 3},
		{sighted{hindered(vip, "no A"), hindered(vip, "no B"), hindered(vip, "no C"), hindered(vip, "no D"), hindered(vip2, "no E")}, "no A; no B; no C; and 2 more", 3},
	} {
		r := cli.CheckReport{Services: []cli.CheckedService{{Outcome: health.Good, Soft: health.Good}}}
		checkPrefixes(t.Context(), c.seen, config.Router{Deadline: time.Minute}, []config.Service{resolver(vip, vip2)}, &r)
		if r.Router.Error != c.want || r.Router.OK != (c.want == "") || r.ExitCode() != c.code {
			t.Errorf("%+v: exit %d, %+v", c.seen, r.ExitCode(), r.Router)
		}
		if got := r.Services[0].Prefixes; len(got) != 2 || got[0].Stage != c.seen[0].Stage || got[0].Detail != c.seen[0].Detail {
			t.Errorf("%+v: prefixes %+v", c.seen, got)
		}
	}
}
