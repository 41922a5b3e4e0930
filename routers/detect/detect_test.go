package detect

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"vouch/routers"
	"vouch/routers/frr"
)

func TestChoose(t *testing.T) {
	some := Found{Daemon: "frr", Running: true, Version: "8.4.4", By: "/run/frr/zebra.vty"}
	other := Found{Daemon: "bird", Running: true, Version: "2.0.12", By: "/run/bird/bird.ctl"}
	off := Found{Daemon: "bird", Sockets: []Socket{{Path: "/a", Problem: "no such socket"}, {Path: "/b", Problem: "left behind"}, {Path: "/c", Problem: "no such socket"}}}
	unclear := other
	unclear.Unclear = "two of them"
	for _, c := range []struct {
		found []Found
		want  string // the daemon, or the error's parts
	}{
		{[]Found{some, off}, "frr"},
		{[]Found{off, some}, "frr"},
		{[]Found{other}, "bird"},
		{[]Found{some, other}, `frr 8.4.4 (/run/frr/zebra.vty) and bird 2.0.12 (/run/bird/bird.ctl); set daemon = "frr" or daemon = "bird" in [router]`},
		{[]Found{some, unclear}, `set daemon = "frr" or daemon = "bird"`},
		{[]Found{unclear}, "bird 2.0.12: two of them"},
		{[]Found{off}, "bird: /a, /c: no such socket; /b: left behind; start the one"},
		{nil, "no routing daemon runs here"},
	} {
		f, err := Choose(c.found)
		switch {
		case err == nil && f.Daemon != c.want:
			t.Errorf("%+v: chose %q, want %q", c.found, f.Daemon, c.want)
		case err != nil && (!errors.Is(err, routers.ErrUnavailable) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%+v: %v, want %q", c.found, err, c.want)
		}
	}
}

func TestVersions(t *testing.T) {
	for text, want := range map[string]string{
		"FRRouting 8.4.4 (apu01) on Linux(6.1.0).\nCopyright": "8.4.4",
		"FRRouting 10.3 (node) on Linux(6.18).":               "10.3",
		"FRRouting 10.2.1-dev-g123 (x)":                       "10.2.1-dev-g123",
		"% Unknown command: show version\n":                   "",
		"FRRouting":                                           "",
		"":                                                    "",
	} {
		if got, err := frrVersion(text); got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"0001 BIRD 2.0.12 ready.\n": "2.0.12",
		"0001 BIRD 1.6.8 ready.\n":  "1.6.8",
		"BIRD 3.1.8 ready.":         "3.1.8",
		"0001 BIRD 2.0.12":          "",
		"SSH-2.0-OpenSSH_9.2":       "",
		"":                          "",
	} {
		if got, err := birdVersion(text); got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

func TestFRRProtocol(t *testing.T) {
	for _, c := range []struct{ method, runs, want string }{
		{"", "", "ospf"}, {"", "ospfd", "ospf"}, {"", "ospf6d", "ospf"}, {"", "bgpd", "bgp"}, {"", "ospfd bgpd", "ospf"}, {"", "ospf6d bgpd", "ospf"},
		{frr.MethodAddress, "staticd", "ospf"},
		{frr.MethodStatic, "", "bgp"}, {frr.MethodStatic, "ospfd", "ospf"}, {frr.MethodStatic, "bgpd ospfd", "bgp"},
		{frr.MethodNetwork, "ospfd", "bgp"},
	} {
		runs := map[string]bool{}
		for d := range strings.FieldsSeq(c.runs) {
			runs[d] = true
		}
		if got := frrProtocol(c.method, runs); got != c.want {
			t.Errorf("method %q with %s: %s, want %s", c.method, c.runs, got, c.want)
		}
	}
}

// Where BIRD 1.6 runs there are two daemons; where a later one does, a bird6 that is left over is none.
func TestPlacesOfBIRD(t *testing.T) {
	at := func(path string, s State, inode uint64) Socket {
		return Socket{Path: path, State: s, file: fileID{inode: inode}}
	}
	for name, c := range map[string]struct {
		both, six           []Socket
		versions, versions6 []string
		want                Found
		unclear             string
	}{
		"one": {[]Socket{at("/a", Answers, 1), at("/b", Missing, 0)}, []Socket{at("/6", Missing, 0)}, []string{"2.0.12", ""}, []string{""},
			Found{Running: true, Version: "2.0.12", By: "/a", socket: "/a"}, ""},
		"the second place": {[]Socket{at("/a", Stale, 1), at("/b", Answers, 2)}, nil, []string{"", "3.1.8"}, nil,
			Found{Running: true, Version: "3.1.8", By: "/b", socket: "/b"}, ""},
		"bird6 beside BIRD 2 is none": {[]Socket{at("/a", Answers, 1)}, []Socket{at("/6", Answers, 2)}, []string{"2.0.12"}, []string{"1.6.8"},
			Found{Running: true, Version: "2.0.12", By: "/a", socket: "/a"}, ""},
		"BIRD 1.6": {[]Socket{at("/a", Answers, 1)}, []Socket{at("/6", Answers, 2)}, []string{"1.6.8"}, []string{"1.6.8"},
			Found{Running: true, Version: "1.6.8", By: "/a", socket: "/a", socket6: "/6"}, ""},
		"bird6 alone": {[]Socket{at("/a", Stale, 1)}, []Socket{at("/6", Answers, 2)}, []string{""}, []string{"1.6.8"},
			Found{Running: true, Version: "1.6.8", By: "/6", socket6: "/6"}, ""},
		"two names of one file": {[]Socket{at("/a", Answers, 1), at("/b", Answers, 1)}, nil, []string{"2.0.12", "2.0.12"}, nil,
			Found{Running: true, Version: "2.0.12", By: "/a", socket: "/a"}, ""},
		"two that run": {[]Socket{at("/a", Answers, 1), at("/b", Silent, 2)}, nil, []string{"2.0.12", ""}, nil,
			Found{Running: true, Version: "2.0.12", By: "/a", socket: "/a"}, "/a and /b; set socket in [router]"},
		"two bird6": {[]Socket{at("/a", Answers, 1)}, []Socket{at("/6", Answers, 2), at("/7", Answers, 3)}, []string{"1.6.8"}, []string{"1.6.8", "1.6.8"},
			Found{Running: true, Version: "1.6.8", By: "/a", socket: "/a", socket6: "/6"}, "/6 and /7; set socket6 in [router]"},
		"none": {[]Socket{at("/a", Stale, 1)}, nil, []string{""}, nil, Found{}, ""},
	} {
		var f Found
		f.choose(c.both, c.versions, c.six, c.versions6)
		if f.Running != c.want.Running || f.Version != c.want.Version || f.By != c.want.By || f.socket != c.want.socket || f.socket6 != c.want.socket6 {
			t.Errorf("%s: %+v, want %+v", name, f, c.want)
		}
		if (f.Unclear == "") != (c.unclear == "") || !strings.HasSuffix(f.Unclear, c.unclear+mark(c.unclear)) {
			t.Errorf("%s: unclear %q, want %q", name, f.Unclear, c.unclear)
		}
	}
}

// mark is what ends the text that asks for a key.
func mark(unclear string) string {
	if unclear == "" {
		return ""
	}
	return " to the one that is meant"
}

func TestOnly(t *testing.T) {
	for want, only := range map[string][]string{"frr bird": nil, "frr": {"frr"}, "bird": {"bird"}} {
		var names []string
		for _, r := range (Options{Only: only}).among() {
			names = append(names, r.name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("only %v: %s", only, got)
		}
	}
	if !slices.Equal([]string{rows[0].name, rows[1].name}, []string{"frr", "bird"}) {
		t.Error("the table of rows was changed")
	}
}

func TestMayRunAProgram(t *testing.T) {
	at := func(ss ...State) (sockets []Socket) {
		for _, s := range ss {
			sockets = append(sockets, Socket{State: s})
		}
		return sockets
	}
	for _, c := range []struct {
		via     string
		sockets []Socket
		want    bool
	}{
		{"", at(Missing, Missing), true}, {"auto", at(Denied), true}, {"auto", at(Missing, Silent), false}, {"auto", at(Stale), false},
		{"socket", at(Missing), false}, {"command", at(Silent), true}, {"command", at(Missing), true},
	} {
		if got := mayRun(c.via, c.sockets); got != c.want {
			t.Errorf("via %q, %v: %t", c.via, c.sockets, got)
		}
	}
}
