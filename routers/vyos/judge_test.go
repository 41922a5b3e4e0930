package vyos

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vouch/routers"
	"vouch/routers/frr"
)

func TestJudge(t *testing.T) {
	no := errors.New("no")
	there := made{there: true, what: "the route", where: "VyOS"}
	gone := made{what: "the route", where: "VyOS"}
	unread := made{unread: no, what: "the route", where: "VyOS"}
	kin := made{kin: true, what: "the route", where: "VyOS"}
	at := func(s routers.Stage, there, selected bool) frr.Origin {
		return frr.Origin{Stage: s, There: there, Selected: selected}
	}
	dark := func(s routers.Stage) frr.Origin { return frr.Origin{Stage: s, Unread: no} }
	for _, c := range []struct {
		name   string
		origin frr.Origin
		made   made
		stage  routers.Stage
		broken bool
		detail string
	}{
		{"nothing", at(routers.Absent, false, false), gone, routers.Absent, false, ""},
		{"announced", at(routers.Advertised, true, true), there, routers.Advertised, false, ""},
		{"announced, FRR alone has it", at(routers.Advertised, true, true), kin, routers.Advertised, true, "not in VyOS"},
		{"announced, not ours", at(routers.Advertised, false, false), gone, routers.Advertised, true, "not in VyOS"},
		{"announced, VyOS unread", at(routers.Advertised, true, true), unread, routers.Advertised, false, "VyOS cannot be read: no"},
		{"absent, VyOS unread", at(routers.Absent, false, false), unread, routers.Unknown, false, "VyOS cannot be read: no"},
		{"not redistributed", at(routers.Absent, true, true), there, routers.Selected, false, "not redistributed"},
		{"another wins", at(routers.Absent, true, false), there, routers.Configured, false, "not selected"},
		{"FRR lost it", at(routers.Absent, false, false), there, routers.Configured, false, "zebra does not have the route"},
		{"FRR alone has it", at(routers.Absent, true, true), kin, routers.Selected, false, "not redistributed"},
		{"another's in zebra", at(routers.Absent, true, true), gone, routers.Absent, false, ""},
		{"protocol unread", at(routers.Unknown, true, true), there, routers.Unknown, false, "is in VyOS"},
		{"zebra unread", dark(routers.Absent), there, routers.Unknown, false, "zebra cannot be read"},
		{"zebra unread, announced", dark(routers.Advertised), there, routers.Advertised, false, ""},
		{"both unread", dark(routers.Unknown), unread, routers.Unknown, false, "VyOS cannot be read"},
		{"another way", at(routers.Advertised, true, true), made{there: true, foreign: "and another"}, routers.Advertised, false, "and another"},
	} {
		got := judge(c.origin, c.made)
		if got.Stage != c.stage || got.Broken != c.broken || !strings.Contains(got.Detail, c.detail) || c.detail == "" && got.Detail != "" {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// fake is a system whose cli-shell-api is a script: of what a real one cannot be made to say.
func fake(t *testing.T, script string) system {
	t.Helper()
	s := system{t.TempDir()}
	if err := os.MkdirAll(s.path("usr/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.path(cliShellAPI), []byte("#!/bin/sh\ncd "+s.root+"\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return s
}

// What is not there while nobody commits is not looked for again; which a lock tells, and when the configuration was
// written, for a commit that came and went meanwhile.
func TestAbsenceIsReadOnceWhereNobodyCommits(t *testing.T) {
	for script, times := range map[string]int{"": 1, "rm -rf opt/vyatta/config/active/*; touch -d 2020-01-01 opt/vyatta/config/active": 2} {
		s := fake(t, "echo >>called\n"+script+"\necho \"set 'static'\"")
		if err := os.MkdirAll(s.path(activeDir), 0o755); err != nil {
			t.Fatal(err)
		}
		st := New(Options{Method: MethodStatic, Root: s.root}).method.(*static)
		if _, err := st.plan(t.Context(), []routers.Change{{Prefix: one, Want: routers.Withdrawn}}); err != nil {
			t.Fatal(err)
		}
		if text, _ := os.ReadFile(s.path("called")); len(text) != times {
			t.Errorf("%q: read %d times, want %d", script, len(text), times)
		}
		_ = os.Remove(s.path("called"))
		_, _ = st.observe(t.Context(), []netip.Prefix{one}) // beside no FRR
		if text, _ := os.ReadFile(s.path("called")); script == "" && len(text) != 1 {
			t.Errorf("an observation read %d times", len(text))
		}
	}
}

// A commit rewrites the running configuration in place: what is not there is looked for once more.
func TestAbsenceIsReadTwice(t *testing.T) {
	for name, origin := range map[string]frr.Origin{"all there was is gone": {}, "zebra has it": {There: true}} {
		s := fake(t, `[ -e called ] && echo "set 'static' 'route' '192.0.2.53/32'"; >>called`)
		p := netip.MustParsePrefix("192.0.2.53/32")
		st := &static{system: s}
		a, err := s.readActive(t.Context(), []netip.Prefix{p}, leaves{})
		if err == nil {
			a, err = st.again(t.Context(), []netip.Prefix{p}, map[netip.Prefix]frr.Origin{p: origin}, a, calm{})
		}
		if err != nil || !a.nodes[p].there {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
}

// What cannot be read is never taken for absent.
func TestActiveUnread(t *testing.T) {
	p := netip.MustParsePrefix("192.0.2.53/32")
	for name, c := range map[string]struct {
		script string
		names  string
	}{
		"fails":       {"echo oops >&2; exit 1", "oops"},
		"crashes":     {"kill -SEGV $$", "exit status"},
		"held open":   {"rm -f up; setsid sh -c 'touch up; exec sleep 1' & until [ -e up ]; do :; done", "may not be whole"},
		"no command":  {`echo "'192.0.2.53/32'"`, "not a command"},
		"cut off":     {`printf "set 'static' 'route' '192.0.2.53/32"`, "not a command"},
		"elsewhere":   {`echo "set 'bgp' 'system-as' '65001'"`, "not a command"},
		"bad tag":     {`echo "set 'static' 'route' '192.0.2.53/32' 'blackhole' 'tag' 'many'"`, "not a number"},
		"half of it":  {`echo "set 'static' 'route' '192.0.2.53/32' 'blackhole'"; exit 1`, "exit status 1"},
		"half, empty": {`echo "set 'static'"; echo "both config NULL" >&2; exit 1`, "exit status 1"},
	} {
		s := fake(t, c.script)
		_, err := s.readActive(t.Context(), []netip.Prefix{p}, leaves{})
		if !errors.Is(err, routers.ErrUnavailable) || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := system{t.TempDir()}.readActive(t.Context(), []netip.Prefix{p}, leaves{})
	if !errors.Is(err, routers.ErrUnavailable) || !strings.Contains(err.Error(), "is this VyOS?") {
		t.Error(err)
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	for _, method := range []string{MethodKernel, MethodStatic} {
		r := New(Options{Method: method, Root: t.TempDir()})
		for _, c := range []routers.Change{
			{Prefix: netip.Prefix{}, Want: routers.Announced}, {Prefix: netip.MustParsePrefix("192.0.2.53/24"), Want: routers.Announced},
			{Prefix: netip.MustParsePrefix("::ffff:192.0.2.53/128"), Want: routers.Announced}, {Prefix: one, Want: routers.Keep}, {Prefix: one, Want: routers.Degraded},
		} {
			err := r.Apply(context.Background(), []routers.Change{c})
			if pe := (*routers.PrefixError)(nil); !errors.Is(err, routers.ErrRefused) || !errors.As(err, &pe) {
				t.Errorf("%s: %+v: %v", method, c, err)
			}
		}
		if err := r.Apply(context.Background(), nil); err != nil {
			t.Error(err)
		}
		if os, err := r.Observe(context.Background(), nil); len(os) > 0 || err != nil {
			t.Errorf("%v, %v", os, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestNames(t *testing.T) {
	for want, o := range map[string]Options{
		"vyos (kernel, bgp)":            {},
		"vyos (kernel, ospf)":           {Protocol: ProtocolOSPF},
		"vyos (static via config, bgp)": {Method: MethodStatic},
		"vyos (static via vbash, ospf)": {Method: MethodStatic, Via: ViaVbash, Protocol: ProtocolOSPF},
	} {
		if got := New(o).String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := New(Options{Root: "/x"}).options.SocketDir; got != filepath.Join("/x", "run/frr") {
		t.Error(got)
	}
}
