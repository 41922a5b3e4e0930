package unit

import (
	"strings"
	"testing"
	"time"

	"vouch/checks"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func number(n int) *int { return &n }

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		spec Spec
		want string // key: what; "" for none
	}{
		"least":               {Spec{Unit: "unbound"}, ""},
		"an instance":         {Spec{Unit: "bird@main.service"}, ""},
		"escaped":             {Spec{Unit: `dev-disk-by\x2dlabel-data.mount`}, ""},
		"all":                 {Spec{Unit: "unbound", ExitedOK: true, ActivatingGrace: time.Second, MaxRestarts: number(0), RestartsWithin: time.Minute}, ""},
		"a socket":            {Spec{Unit: "bird.socket", ActivatingGrace: time.Second}, ""},
		"no unit":             {Spec{}, "unit: is missing"},
		"a template":          {Spec{Unit: "bird@"}, "unit: is a template, of which nothing runs"},
		"a template's file":   {Spec{Unit: "bird@.service"}, "unit: is a template, of which nothing runs"},
		"a path":              {Spec{Unit: "/mnt"}, "unit: is a path, not the name of a unit"},
		"a pattern":           {Spec{Unit: "bird*"}, "unit: must be one unit, not a pattern"},
		"a space":             {Spec{Unit: "bird d"}, `unit: must be of letters, digits and ":-_.\@"`},
		"a quote":             {Spec{Unit: "bird'"}, `unit: must be of letters, digits and ":-_.\@"`},
		"only a suffix":       {Spec{Unit: ".service"}, `unit: must be of letters, digits and ":-_.\@"`},
		"too long":            {Spec{Unit: strings.Repeat("x", 250)}, "unit: is longer than 255 bytes"},
		"grace":               {Spec{Unit: "a", ActivatingGrace: -1}, "activating_grace: must be from 0s to 1h"},
		"grace of a target":   {Spec{Unit: "a.target", ActivatingGrace: 2 * time.Hour}, "activating_grace: must be from 0s to 1h"},
		"restarts":            {Spec{Unit: "a", MaxRestarts: number(-1)}, "max_restarts: must be from 0 to 1000"},
		"within":              {Spec{Unit: "a", RestartsWithin: time.Millisecond}, "restarts_within: must be from 1s to 24h"},
		"all of a socket":     {Spec{Unit: "a.socket", ExitedOK: true, MaxRestarts: number(1), RestartsWithin: 1}, "exited_ok: has no effect on a unit that is no service; max_restarts: has no effect on a unit that is no service; restarts_within: has no effect on a unit that is no service"},
		"all that can be bad": {Spec{ActivatingGrace: -1, MaxRestarts: number(-1), RestartsWithin: 1}, "unit: is missing; max_restarts: must be from 0 to 1000; restarts_within: must be from 1s to 24h; activating_grace: must be from 0s to 1h"},
	} {
		var got []string
		for _, p := range c.spec.Validate() {
			got = append(got, p.Key+": "+p.What)
			if p.WayOut == "" {
				t.Errorf("%s: no way out of %+v", name, p)
			}
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	for path, want := range map[string]string{"/mnt": "write what systemd-escape --path --suffix=mount prints for it", "/etc/systemd/system/a.service": `write "a.service"`} {
		if ps := (&Spec{Unit: path}).Validate(); len(ps) != 1 || ps[0].WayOut != want {
			t.Errorf("%s: %+v", path, ps)
		}
	}
	s := Spec{Unit: "unbound.d"}
	if s.Validate(); s.Unit != "unbound.d.service" || *s.MaxRestarts != 3 || s.RestartsWithin != 5*time.Minute {
		t.Errorf("defaults: %+v", s)
	}
	if c, err := s.New(); err != nil || c.String() != "unbound.d.service" {
		t.Errorf("%v, %v", c, err)
	}
	if p := (&Spec{Unit: "bird@"}).nameProblem(); p.WayOut != `name the instance, such as "bird@main.service"` {
		t.Errorf("%+v", p)
	}
}

func TestHints(t *testing.T) {
	for key, want := range map[string]bool{"exited_ok": true, "activating_grace": true, "restarts_within": true, "max_restarts": true, "unit": false} {
		if got := new(Spec).Hint(key); (got != "") != want {
			t.Errorf("%s: %q", key, got)
		}
	}
}

func TestPathOf(t *testing.T) {
	for name, want := range map[string]string{
		"unbound.service": "/org/freedesktop/systemd1/unit/unbound_2eservice",
		"9p@x_y.service":  "/org/freedesktop/systemd1/unit/_39p_40x_5fy_2eservice",
	} {
		if got := pathOf(name); string(got) != want || !got.IsValid() {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Restarts count for so long, and one by hand sets the number back.
func TestRestarts(t *testing.T) {
	start := time.Now()
	for name, c := range map[string]struct {
		n    []uint32 // one reading each second
		want string   // of each: whether there were more than two within ten seconds
	}{
		"none":                     {[]uint32{0, 0, 0}, "..."},
		"before we came":           {[]uint32{57, 57, 57}, "..."},
		"two":                      {[]uint32{0, 1, 2, 2}, "...."},
		"three":                    {[]uint32{0, 1, 2, 3, 3}, "...!!"},
		"three at once":            {[]uint32{5, 8}, ".!"},
		"it calms down":            {[]uint32{0, 1, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3}, "...!!!!!!!!.."},
		"slow":                     {[]uint32{0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3}, "............."},
		"by hand":                  {[]uint32{0, 1, 2, 3, 0, 0, 1, 2, 3}, "...!....!"},
		"by hand, then a loop":     {[]uint32{9, 0, 1, 2, 3}, "....!"},
		"by hand, and one at once": {[]uint32{4, 1, 2, 3}, "...."},
	} {
		var r restarts
		got := ""
		for i, n := range c.n {
			if r.see(start.Add(time.Duration(i)*time.Second), state{restarts: n, uptime: time.Hour}, 2, 10*time.Second) {
				got += "!"
			} else {
				got += "."
			}
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// What the first look at a unit tells of restarts that nobody saw.
func TestRestartsBefore(t *testing.T) {
	for name, c := range map[string]struct {
		s    state
		most int
		want time.Duration // how long from now it is a crash loop; 0: it is none
	}{
		"a loop as it may be":                {state{active: "active", restarts: 57, since: time.Second, uptime: time.Hour}, 1, 0},
		"one is one too many":                {state{active: "active", restarts: 57, since: time.Second, uptime: time.Hour}, 0, 9 * time.Second},
		"the last one is long ago":           {state{active: "active", restarts: 57, since: 10 * time.Second, uptime: time.Hour}, 0, 0},
		"nobody knows when the last one was": {state{active: "activating", restarts: 57, since: time.Second, uptime: time.Hour}, 0, 0},
		"all since the start":                {state{active: "active", restarts: 5, since: time.Second, uptime: 7 * time.Second}, 3, 3 * time.Second},
		"few since the start":                {state{active: "active", restarts: 3, since: time.Second, uptime: 7 * time.Second}, 3, 0},
		"none":                               {state{active: "active", since: time.Second, uptime: time.Second}, 0, 0},
	} {
		var r restarts
		now := time.Now()
		looping := r.see(now, c.s, c.most, 10*time.Second)
		switch {
		case looping != (c.want > 0):
			t.Errorf("%s: %t", name, looping)
		case looping && r.calm(10*time.Second).Sub(now) != c.want:
			t.Errorf("%s: it ends after %s, want %s", name, r.calm(10*time.Second).Sub(now), c.want)
		case r.see(now.Add(c.want), c.s, c.most, 10*time.Second):
			t.Errorf("%s: it does not end", name)
		}
	}
}

// However long a loop lasts, what is remembered of it stays small.
func TestRestartsAreForgotten(t *testing.T) {
	var r restarts
	now := time.Now()
	for i := range 100_000 {
		r.see(now.Add(time.Duration(i)*time.Millisecond), state{restarts: uint32(i)}, 5, time.Hour)
	}
	if len(r.seen) > 8 {
		t.Errorf("%d readings are kept", len(r.seen))
	}
}

func TestGrace(t *testing.T) {
	r := rules{grace: 10 * time.Second}
	s := state{load: "loaded", active: "activating", sub: "start", since: 9 * time.Second}
	if f := r.judge("a.service", s, false, ""); f == nil || f.Reason != checks.ReasonUnknown || f.Detail != "is activating (start), for which activating_grace gives it 10s" {
		t.Errorf("within: %v", f)
	}
	s.since = 10 * time.Second
	if f := r.judge("a.service", s, false, ""); f == nil || f.Reason != checks.ReasonUnusable || f.Detail != "is activating (start) for 10s or longer" {
		t.Errorf("after: %v", f)
	}
	if f := (rules{}).judge("a.service", state{load: "loaded", active: "activating", sub: "start", since: -1}, false, ""); f == nil || f.Reason != checks.ReasonUnusable {
		t.Errorf("without any: %v", f)
	}
	s.since, s.sub = 0, "auto-restart"
	if f := r.judge("a.service", s, false, "; last: exit-code, status 1"); f == nil || f.Reason != checks.ReasonUnusable || f.Detail != "is activating (auto-restart); last: exit-code, status 1" {
		t.Errorf("a restart has no grace: %v", f)
	}
}

// A service whose process died is deactivating until those that it left are gone: what began it is told.
func TestDiedWithChildren(t *testing.T) {
	s := state{load: "loaded", active: "deactivating", sub: "stop-sigterm", result: "signal", code: 2, status: 9}
	if f := (rules{}).judge("a.service", s, false, ""); f == nil || f.Detail != "is deactivating (stop-sigterm); last: signal, SIGKILL" {
		t.Errorf("%v", f)
	}
}

func TestNearest(t *testing.T) {
	names := []string{"unbound.service", "unbound-anchor.service", "bird.service", "named.service"}
	for name, want := range map[string]string{"unbonud.service": "unbound.service", "birdd.service": "bird.service", "nginx.service": "", "bind9.service": ""} {
		if got := nearest(name, names); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
