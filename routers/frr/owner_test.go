package frr

import (
	"errors"
	"os"
	"strings"
	"testing"

	"vouch/routers"
	"vouch/routers/frr/vty"

	"github.com/google/go-cmp/cmp"
)

// releases is a directory of sockets for each, with mgmtd's where it has that.
func releases(t *testing.T) map[string]string {
	t.Helper()
	old, mgmtd := t.TempDir(), t.TempDir()
	if err := os.WriteFile(vty.Path(mgmtd, "mgmtd"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"8.4.4": old, "10.3": mgmtd}
}

// configurers is who takes the addresses of an interface.
var configurers = map[string]string{"8.4.4": "zebra", "10.3": "mgmtd"}

// FRR is told what it does not have yet, and removes what is its own; the kernel's own it takes over first.
func TestOwnerChanges(t *testing.T) {
	const add, add6 = "ip address 10.53.53.53/32", "ipv6 address 2001:db8:53::53/128"
	for release, dir := range releases(t) {
		for name, c := range map[string]struct {
			state string
			k     *kernel
			cs    []routers.Change
			want  string // sessions, parted by |
		}{
			"announce":                 {"kernel-address", on(), announce(p4, p6), add + ", " + add6},
			"announce again":           {"own-address", on(p4, p6), announce(p4, p6), ""},
			"adopt":                    {"kernel-address", on(p4), announce(p4), add},
			"taken away behind it":     {"own-address", on(p6), announce(p4, p6), "no " + add + "|" + add},
			"withdraw":                 {"own-address", on(p4, p6), withdraw(p4, p6), "no " + add + ", no " + add6},
			"withdraw what is nowhere": {"kernel-address", on(), withdraw(p4), ""},
			"withdraw the kernel's":    {"kernel-address", on(p4), withdraw(p4), add + ", no " + add},
			"withdraw what is stated":  {"own-address", on(p6), withdraw(p4), "no " + add},
			"withdraw what is lost":    {"own-address", on(), withdraw(p4, p6), "no " + add + ", no " + add6},
			"withdraws first":          {"own-address", on(p4), append(announce(s4), withdraw(p4)...), "no " + add + ", ip address 10.53.54.1/32"},
		} {
			t.Run(release+" "+name, func(t *testing.T) {
				r := recording(t, release+"/"+configurers[release]+"-"+c.state)
				err := r.router(Options{Owner: OwnerFRR, SocketDir: dir, Unpaced: true}).owned(c.k).Apply(t.Context(), c.cs)
				var want []string
				for q := range strings.SplitSeq(c.want, "|") {
					if q != "" {
						want = append(want, configurers[release]+": configure terminal/interface lo: "+q)
					}
				}
				if diff := cmp.Diff(want, r.asked()); diff != "" || err != nil {
					t.Errorf("%v\n%s", err, diff)
				}
			})
		}
	}
}

// Where there is an mgmtd, but zebra itself still takes addresses, as is said of FRR 9.0, zebra is told.
func TestOwnerOf9(t *testing.T) {
	o := Options{Owner: OwnerFRR, SocketDir: releases(t)["10.3"], Unpaced: true}
	for want, c := range map[string]struct {
		state string
		cs    []routers.Change
	}{
		"ip address 10.53.53.53/32":           {"kernel", announce(p4)},
		"no ipv6 address 2001:db8:53::53/128": {"own", withdraw(p6)}, // it is found in zebra's configuration
	} {
		r := recording(t, "10.3/mgmtd-empty", "zebra-"+c.state+"-address")
		r.interfaces = true
		err := r.router(o).owned(on(p6)).Apply(t.Context(), c.cs)
		if diff := cmp.Diff([]string{"zebra: configure terminal/interface lo: " + want}, r.asked()); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	}
}

// What cannot be known or done is told; a withdraw is asked for all the same, where that harms nothing.
func TestOwnerRefusals(t *testing.T) {
	o := Options{Owner: OwnerFRR, SocketDir: t.TempDir(), Unpaced: true}
	del := []string{"zebra: configure terminal/interface lo: no ip address 10.53.53.53/32"}
	broken := func() *replay {
		return recording(t, "zebra-kernel-address").edit("zebra", "running", func(string) string { return "" })
	}
	for name, c := range map[string]struct {
		r     *replay
		k     *kernel
		cs    []routers.Change
		want  []string
		class error
		text  string
	}{
		"unread withdraw":     {broken(), on(p4), withdraw(p4), del, routers.ErrUnavailable, "not a configuration"},
		"unread announce":     {broken(), on(), announce(p4), nil, routers.ErrUnavailable, "not a configuration"},
		"no kernel, withdraw": {recording(t, "zebra-kernel-address"), &kernel{err: routers.ErrUnavailable}, withdraw(p4), del, routers.ErrUnavailable, ""},
		"no interface":        {recording(t, "zebra-kernel-address"), &kernel{gone: true}, announce(p4), nil, routers.ErrUnavailable, `interface "lo" does not exist (yet)`},
		"away":                {recording(t).fail("zebra"), on(p4), withdraw(p4), nil, routers.ErrUnavailable, "zebra.vty"},
	} {
		err := c.r.router(o).owned(c.k).Apply(t.Context(), c.cs)
		if diff := cmp.Diff(c.want, c.r.asked()); diff != "" || !errors.Is(err, c.class) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: error %v\n%s", name, err, diff)
		}
	}
	r := recording(t, "zebra-kernel-address")
	net := routers.Change{Prefix: p4n, Want: routers.Announced}
	if err := r.router(o).owned(on()).Apply(t.Context(), []routers.Change{net}); !errors.Is(err, routers.ErrRefused) || len(r.changes) > 0 {
		t.Errorf("a network: %v, asked %v", err, r.asked())
	}
}

// What 8.4.4 answers when it forgets an address (status 13) is no refusal.
func TestOwnerForgets(t *testing.T) {
	r := recording(t, "zebra-own-address").refuse("zebra", "no ip address 10.53.53.53/32")
	k := on()
	if err := r.router(Options{Owner: OwnerFRR, SocketDir: t.TempDir(), Unpaced: true}).owned(k).Apply(t.Context(), announce(p4)); err != nil {
		t.Error(err)
	}
	err := recording(t, "zebra-own-address").refuse("zebra", "ip address 10.53.53.53/32").router(Options{Owner: OwnerFRR, SocketDir: t.TempDir(), Unpaced: true}).owned(k).Apply(t.Context(), announce(p4))
	if !errors.Is(err, routers.ErrRefused) {
		t.Errorf("a refusal that counts: %v", err)
	}
}

// A locked configuration is busy: soon it is not. Nothing is sent into the wrong node.
func TestOwnerBusy(t *testing.T) {
	dir := releases(t)["10.3"]
	r := recording(t, "10.3/mgmtd-kernel-address")
	r.replies["mgmtd"]["ip address 10.53.53.53/32"] = load(t, "10.3/mgmtd-locked")["interface lo"]
	err := r.router(Options{Owner: OwnerFRR, SocketDir: dir, Unpaced: true}).owned(on()).Apply(t.Context(), announce(p4))
	if !errors.Is(err, routers.ErrBusy) || errors.Is(err, routers.ErrRefused) || !strings.Contains(err.Error(), "could not lock candidate DS") {
		t.Errorf("error %v", err)
	}
}

func TestOwnerObserve(t *testing.T) {
	for release, dir := range releases(t) {
		who := release + "/" + configurers[release]
		o := Options{Owner: OwnerFRR, SocketDir: dir}
		both := withdraw(p4, p6)
		all := func(state string, more ...string) *replay {
			return recording(t, append([]string{release + "/ospfd-" + state, release + "/ospf6d-" + state}, more...)...)
		}
		t.Run(release, func(t *testing.T) {
			cost6 := map[string]string{"8.4.4": "intra-area prefix, cost 10", "10.3": "intra-area prefix, cost 0"}[release]
			checkObserve(t, all("stub", release+"/zebra-address", who+"-own-address").router(o).owned(on(p4, p6)), prefixes(both),
				[]seen{{routers.Advertised, core, "stub link, cost 0"}, {routers.Advertised, core, cost6}}, nil)
			const taken = "the kernel's alone"
			checkObserve(t, all("stub", release+"/zebra-address", who+"-kernel-address").router(o).owned(on(p4, p6)), prefixes(both),
				[]seen{{routers.Advertised, core, taken}, {routers.Advertised, core, taken}}, nil)
			const lost = `FRR's configuration has it on lo, but the kernel does not; not on interface "lo"`
			checkObserve(t, all("absent", release+"/zebra-absent", who+"-own-address").router(o).owned(on()), prefixes(both),
				[]seen{{routers.Configured, "", lost}, {routers.Configured, "", lost}}, nil)
			checkObserve(t, all("absent", release+"/zebra-absent", who+"-kernel-address").router(o).owned(on()), prefixes(both),
				[]seen{{routers.Absent, "", "not on"}, {routers.Absent, "", "not on"}}, nil)
			cut := all("stub", release+"/zebra-address").edit("zebra", "running", func(string) string { return "" })
			checkObserve(t, cut.router(o).owned(on(p4, p6)), prefixes(both),
				[]seen{{routers.Advertised, core, "FRR's configuration cannot be read"}, {routers.Advertised, core, "FRR's configuration cannot be read"}}, routers.ErrUnavailable)
		})
	}
}
