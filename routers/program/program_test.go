package program

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vouch/routers"
)

var (
	v4 = netip.MustParsePrefix("192.0.2.53/32")
	v6 = netip.MustParsePrefix("2001:db8::53/128")
)

// sh is a command that the shell runs in dir.
func sh(dir, script string) []string {
	return []string{"/bin/sh", "-c", "cd " + dir + "; " + script}
}

// table is a router whose commands keep a file for each prefix, as a routing table of their own.
func table(t *testing.T) (*Router, string) {
	t.Helper()
	dir := t.TempDir()
	const file = `f=$(echo "$ANYCAST_PREFIX" | tr /: __); `
	return New(Options{
		Up:      sh(dir, file+`echo advertised >$f`),
		Down:    sh(dir, file+`rm -f $f`),
		Degrade: sh(dir, file+`echo advertised degraded as asked >$f`),
		Read:    sh(dir, file+`if [ -e $f ]; then cat $f; else exit 1; fi`),
	}), dir
}

func apply(t *testing.T, r *Router, w routers.Want, ps ...netip.Prefix) error {
	t.Helper()
	var cs []routers.Change
	for _, p := range ps {
		cs = append(cs, routers.Change{Prefix: p, Want: w})
	}
	return r.Apply(t.Context(), cs)
}

func observe(t *testing.T, r *Router, ps ...netip.Prefix) []routers.Observation {
	t.Helper()
	os, err := r.Observe(t.Context(), ps)
	if err != nil {
		t.Fatal(err)
	}
	return os
}

func TestOneLife(t *testing.T) {
	r, _ := table(t)
	for _, s := range []struct {
		want routers.Want
		read routers.Observation
	}{
		{routers.Withdrawn, routers.Observation{Stage: routers.Absent}},
		{routers.Announced, routers.Observation{Stage: routers.Advertised}},
		{routers.Degraded, routers.Observation{Stage: routers.Advertised, Degraded: true, Detail: "as asked"}},
		{routers.Announced, routers.Observation{Stage: routers.Advertised}},
		{routers.Withdrawn, routers.Observation{Stage: routers.Absent}},
	} {
		if err := apply(t, r, s.want, v6, v4); err != nil {
			t.Fatal(err)
		}
		want := []routers.Observation{s.read, s.read}
		want[0].Prefix, want[1].Prefix = v6, v4
		if d := cmp.Diff(want, observe(t, r, v6, v4), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); d != "" {
			t.Errorf("%s:\n%s", s.want, d)
		}
	}
	if r.Goal() != routers.Advertised {
		t.Errorf("the goal is %s, though it is read back", r.Goal())
	}
}

// What read may leave, and what that says.
func TestRead(t *testing.T) {
	for script, want := range map[string]struct {
		stage    routers.Stage
		degraded bool
		detail   string
	}{
		"true":                              {stage: routers.Advertised},
		"echo; exit 0":                      {stage: routers.Advertised},
		"exit 1":                            {stage: routers.Absent},
		"echo why not >&2; exit 1":          {stage: routers.Absent},
		"exit 2":                            {detail: "exit status 2"},
		"echo cannot ask >&2; exit 3":       {detail: "exit status 3: cannot ask"},
		"echo selected":                     {stage: routers.Selected},
		"echo configured, not sent; exit 1": {stage: routers.Configured, detail: "not sent"},
		"echo not, advertised":              {detail: "the first word is no stage: not, advertised"},
		"echo degraded":                     {stage: routers.Advertised, degraded: true},
		"echo advertised, degraded":         {stage: routers.Advertised, degraded: true},
		"echo advertised,degraded, MED 100, twice": {stage: routers.Advertised, degraded: true, detail: "MED 100, twice"},
		"echo degraded, selected: no peer":         {stage: routers.Advertised, degraded: true, detail: "selected: no peer"},
		"echo degraded configured no peer":         {stage: routers.Configured, degraded: true, detail: "no peer"},
		"echo degraded by MED 100":                 {stage: routers.Advertised, degraded: true, detail: "by MED 100"},
		"echo degraded, absent":                    {detail: "absent and degraded at once: degraded, absent"},
		"echo advertisedly":                        {detail: "the first word is no stage: advertisedly"},
		"echo configured no peer; exit 1":          {stage: routers.Configured, detail: "no peer"},
		"printf ' advertised\\tdegraded\\n'":       {stage: routers.Advertised, degraded: true},
		"echo selected degraded MED 100":           {stage: routers.Selected, degraded: true, detail: "MED 100"},
		"echo absent degraded":                     {detail: "absent and degraded at once: absent degraded"},
		"echo absent":                              {stage: routers.Absent},
		"echo unknown; exit 0":                     {detail: "it says so itself: unknown"},
		"echo Advertised":                          {stage: routers.Advertised},
		"echo % error":                             {detail: "the first word is no stage: % error"},
		"echo advertised; kill -SEGV $$":           {detail: "killed by SIGSEGV: advertised"},
		"kill -TERM $$":                            {detail: "killed by SIGTERM"},
		"sleep 100":                                {detail: "killed after 2s"},
		"echo advertised; sleep 100":               {detail: "killed after 2s: advertised"},
		"exec /nonexistent/read":                   {detail: "not found"},
		"printf 'advertised a\\033[31mb\\n\\377c'": {stage: routers.Advertised, detail: "a[31mb c"},
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			timeout := time.Minute
			if strings.HasPrefix(want.detail, "killed after") {
				timeout = 2 * time.Second
			}
			r := New(Options{Read: sh("/", script), Timeout: timeout})
			os, err := r.Observe(t.Context(), []netip.Prefix{v4})
			o := os[0]
			if o.Prefix != v4 || o.Stage != want.stage || o.Degraded != want.degraded || !matches(o.Detail, want.detail) {
				t.Errorf("read %+v, want %+v", o, want)
			}
			if (err != nil) != (want.stage == routers.Unknown) || err != nil && !errors.Is(err, routers.ErrUnavailable) {
				t.Errorf("error: %v", err)
			}
			if err != nil && (!strings.Contains(err.Error(), "read "+v4.String()) || !matches(err.Error()[max(0, strings.Index(err.Error(), "killed after")):], want.detail) && !strings.Contains(err.Error(), want.detail)) {
				t.Errorf("the error names not all: %v", err)
			}
		})
	}
}

// matches compares a detail; how exactly a killed command's time is told depends on the machine.
func matches(got, want string) bool {
	if strings.HasPrefix(want, "killed after") {
		return strings.HasPrefix(got, "killed after") && strings.HasSuffix(got, want[len("killed after 2s"):])
	}
	if want == "not found" {
		return strings.HasSuffix(got, want)
	}
	return got == want
}

func TestEnvironment(t *testing.T) {
	dir := t.TempDir()
	say := func() []string {
		return sh(dir, `echo "$ANYCAST_ACTION $ANYCAST_PREFIX $ANYCAST_SERVICE/$SECRET" >>said`)
	}
	t.Setenv("SECRET", "of the agent")
	r := New(Options{Up: say(), Down: say(), Degrade: say(), Read: append(say(), "sh")})
	r.SetLabels(map[netip.Prefix]routers.Label{v4: {Service: "resolver"}, v6: {Service: "web"}})
	r.SetLabels(map[netip.Prefix]routers.Label{v6: {Service: "www"}})
	for _, w := range []routers.Want{routers.Announced, routers.Degraded, routers.Withdrawn} {
		if err := errors.Join(apply(t, r, w, v4), apply(t, r, w, v6)); err != nil {
			t.Fatal(err)
		}
	}
	observe(t, r, v4)
	b, err := os.ReadFile(filepath.Join(dir, "said"))
	want := "up 192.0.2.53/32 resolver/\nup 2001:db8::53/128 www/\ndegrade 192.0.2.53/32 resolver/\ndegrade 2001:db8::53/128 www/\n" +
		"down 192.0.2.53/32 resolver/\ndown 2001:db8::53/128 www/\nread 192.0.2.53/32 resolver/\n"
	if err != nil || string(b) != want {
		t.Errorf("%v\n got %s\nwant %s", err, b, want)
	}
}

// Without a read command the commands' own ends are all there is, and before there were any, neither an
// announced nor a withdrawn prefix is as wanted.
func TestWithoutRead(t *testing.T) {
	dir := t.TempDir()
	fail := `if [ -e fail ]; then echo no such table >&2; exit 4; fi`
	r := New(Options{Up: sh(dir, fail), Down: sh(dir, fail), Degrade: sh(dir, fail)})
	if r.Goal() != routers.Configured {
		t.Errorf("the goal is %s, though nothing can be read", r.Goal())
	}
	check := func(when string, p netip.Prefix, want routers.Observation) {
		t.Helper()
		got := observe(t, r, v4, v6)
		at := slices.IndexFunc(got, func(o routers.Observation) bool { return o.Prefix == p })
		if at < 0 || got[at].Stage != want.Stage || got[at].Broken != want.Broken || got[at].Degraded != want.Degraded || !strings.Contains(got[at].Detail, want.Detail) || (want.Detail == "") != (got[at].Detail == "") {
			t.Errorf("%s: read %+v, want %+v", when, got, want)
		}
	}
	ran := func(action, want string) { // what Examine says of it
		t.Helper()
		fs := r.Examine(t.Context(), nil)
		if !slices.ContainsFunc(fs, func(f routers.Finding) bool { return f.Subject == action && f.Text == want }) {
			t.Errorf("nothing says %q of %s: %+v", want, action, fs)
		}
	}
	first := routers.Observation{Stage: routers.Configured, Broken: true, Detail: "this process has run none: what an earlier run left"}
	check("at first", v4, first)
	_ = apply(t, r, routers.Announced, v4)
	check("up", v4, routers.Observation{Stage: routers.Configured})
	check("the other one", v6, first)
	_ = apply(t, r, routers.Degraded, v4)
	check("degraded", v4, routers.Observation{Stage: routers.Configured, Degraded: true})
	_ = apply(t, r, routers.Withdrawn, v4)
	check("down", v4, routers.Observation{Stage: routers.Absent})
	if err := os.WriteFile(filepath.Join(dir, "fail"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, w := range []routers.Want{routers.Announced, routers.Withdrawn, routers.Degraded} {
		err := apply(t, r, w, v4)
		if want := "program: " + actions[w] + " 192.0.2.53/32: exit status 4: no such table"; err == nil || err.Error() != want || !errors.Is(err, routers.ErrUnavailable) {
			t.Errorf("%s: error %v, want %s", w, err, want)
		}
		ran(actions[w], "the last run failed: "+actions[w]+" 192.0.2.53/32: exit status 4: no such table")
		check("failed", v4, routers.Observation{Stage: routers.Configured, Broken: true, Detail: actions[w] + " 192.0.2.53/32: exit status 4: no such table"})
	}
	if err := os.Remove(filepath.Join(dir, "fail")); err != nil {
		t.Fatal(err)
	}
	_ = apply(t, r, routers.Withdrawn, v4)
	check("down after all", v4, routers.Observation{Stage: routers.Absent})
	ran("down", "/bin/sh can be run")
}

// What a command leaves running may have more to say: a reading is not known then, and a change goes by its exit
// status.
func TestLeftRunning(t *testing.T) {
	left := func(script string) []string { return sh("/", "sleep 100 & "+script) }
	r := New(Options{Up: left("exit 0"), Down: left("echo no; exit 3")})
	if err := apply(t, r, routers.Announced, v4); err != nil {
		t.Errorf("up: %v", err)
	}
	if err := apply(t, r, routers.Withdrawn, v4); err == nil || !strings.Contains(err.Error(), "exit status 3: no") {
		t.Errorf("down: %v", err)
	}
	for _, script := range []string{"exit 0", "exit 1", "echo absent", "echo advertised"} {
		r.options.Read = left(script)
		os, err := r.Observe(t.Context(), []netip.Prefix{v4})
		if os[0].Stage != routers.Unknown || !strings.Contains(os[0].Detail, "left something running that holds its output") || !errors.Is(err, routers.ErrUnavailable) {
			t.Errorf("%s: %+v, %v", script, os, err)
		}
	}
	r.options.Read = sh("/", "sleep 100 >/dev/null 2>&1 & exit 1")
	if o := observe(t, r, v4)[0]; o.Stage != routers.Absent {
		t.Errorf("with its output elsewhere: %+v", o)
	}
}

// With a read command a failure is told, and decides nothing.
func TestFailureIsOnlyDiagnosis(t *testing.T) {
	dir := t.TempDir()
	r := New(Options{Up: sh(dir, "echo advertised >it; exit 9"), Down: sh(dir, "true"), Read: sh(dir, "cat it")})
	if err := apply(t, r, routers.Announced, v4); err == nil {
		t.Error("a failure is not told")
	}
	if o := observe(t, r, v4)[0]; o.Stage != routers.Advertised || o.Broken {
		t.Errorf("read %+v", o)
	}
	if err := apply(t, r, routers.Withdrawn, v4); err != nil {
		t.Error(err)
	}
	if o := observe(t, r, v4)[0]; o.Stage != routers.Advertised {
		t.Errorf("a down that did nothing counts: %+v", o)
	}
}

func TestRefused(t *testing.T) {
	r := New(Options{Up: []string{"/bin/true"}, Down: []string{"/bin/true"}})
	for _, c := range []struct {
		change routers.Change
		want   string
	}{
		{routers.Change{Prefix: v4, Want: routers.Degraded}, "program: 192.0.2.53/32: there is no degrade command: set degrade in [router]"},
		{routers.Change{Prefix: v4, Want: routers.Keep}, "program: 192.0.2.53/32: no change is called keep"},
		{routers.Change{Prefix: netip.MustParsePrefix("192.0.2.53/24"), Want: routers.Withdrawn}, "not a prefix in its usual form"},
		{routers.Change{Prefix: netip.MustParsePrefix("::ffff:192.0.2.53/128"), Want: routers.Withdrawn}, "not a prefix in its usual form"},
		{routers.Change{Want: routers.Withdrawn}, "not a prefix in its usual form"},
	} {
		err := r.Apply(t.Context(), []routers.Change{c.change})
		if err == nil || !errors.Is(err, routers.ErrRefused) || errors.Is(err, routers.ErrUnavailable) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.change, err, c.want)
		}
	}
	if err := r.Apply(t.Context(), []routers.Change{{Prefix: v4, Want: routers.Degraded}, {Prefix: v6, Want: routers.Withdrawn}}); !errors.Is(err, routers.ErrRefused) {
		t.Errorf("one of two: %v", err)
	}
	if o := observe(t, r, v6)[0]; o.Stage != routers.Absent {
		t.Errorf("what is refused keeps another one from being done: %+v", o)
	}
}

func TestCannotStart(t *testing.T) {
	r := New(Options{Up: []string{"/nonexistent/up"}, Read: []string{"vouch-no-such"}})
	if err := apply(t, r, routers.Announced, v4); err == nil || !errors.Is(err, routers.ErrUnavailable) || err.Error() != "program: up 192.0.2.53/32: cannot start /nonexistent/up: no such file or directory" {
		t.Errorf("%v", err)
	}
	os, err := r.Observe(t.Context(), []netip.Prefix{v4})
	if os[0].Stage != routers.Unknown || !errors.Is(err, routers.ErrUnavailable) {
		t.Errorf("%+v, %v", os, err)
	}
}

// Many failures are summed up on one line.
func TestManyFailures(t *testing.T) {
	r := New(Options{Up: []string{"/bin/false"}})
	var ps []netip.Prefix
	for i := range 30 {
		ps = append(ps, netip.MustParsePrefix(fmt.Sprintf("192.0.2.%d/32", i)))
	}
	err := apply(t, r, routers.Announced, ps...)
	if err == nil || !strings.HasSuffix(err.Error(), "; and 27 more failed") || strings.Contains(err.Error(), "\n") || !errors.Is(err, routers.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	if fs := r.Examine(t.Context(), nil); !strings.HasPrefix(fs[0].Text, "the last run failed: up 192.0.2.0/32: exit status 1; ") || !strings.HasSuffix(fs[0].Text, "; and 27 more") {
		t.Errorf("found %+v", fs[0])
	}
	for _, p := range ps { // each is told of its own
		if about := routers.About(err, p); about.Error() != fmt.Sprintf("program: up %s: exit status 1", p) || !errors.Is(about, routers.ErrUnavailable) {
			t.Errorf("about %s: %v", p, about)
		}
	}
	r = New(Options{Read: []string{"/bin/sh", "-c", "exit 2"}})
	_, err = r.Observe(t.Context(), ps)
	if about := routers.About(err, ps[29]); about.Error() != "program: read 192.0.2.29/32: exit status 2" {
		t.Errorf("about a reading: %v", about)
	}
	if err := apply(t, r, routers.Announced, v4, v6); routers.About(err, v6).Error() != "program: "+v6.String()+": there is no up command: set up in [router]" {
		t.Errorf("about what was refused: %v", err)
	}
}

func TestContextHasEnded(t *testing.T) {
	r, _ := table(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	os, err := r.Observe(ctx, []netip.Prefix{v4, v6})
	if len(os) != 2 || os[1].Stage != routers.Unknown || os[1].Prefix != v6 || !errors.Is(err, routers.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", os, err)
	}
	if err := r.Apply(ctx, []routers.Change{{Prefix: v4, Want: routers.Withdrawn}}); !errors.Is(err, routers.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}

func TestNames(t *testing.T) {
	for want, o := range map[string]Options{
		"program (/sbin/up, not read back)":     {Up: []string{"/sbin/up", "--key", "secret"}},
		"program (up, read by /usr/bin/python)": {Up: []string{"up"}, Read: []string{"/usr/bin/python", "x.py"}},
	} {
		if got := New(o).String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestExamine(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	fs := New(Options{Up: []string{"true"}, Down: []string{plain, "x"}, Degrade: []string{"vouch-no-such"}}).Examine(t.Context(), nil)
	var got []string
	for _, f := range fs {
		got = append(got, fmt.Sprintf("%d %s %s", f.Severity, f.Subject, f.Text))
		if f.Severity != routers.Fine && f.WayOut == "" {
			t.Errorf("%s has no way out", f.Subject)
		}
	}
	want := []string{"0 up /usr/bin/true can be run", "3 down cannot start " + plain + ": permission denied",
		"3 degrade cannot start vouch-no-such: executable file not found in $PATH"}
	if len(got) != 4 || !slices.Equal(got[:3], want) || !strings.HasPrefix(got[3], "1 read there is no read command") {
		t.Errorf("got %q", got)
	}
}
