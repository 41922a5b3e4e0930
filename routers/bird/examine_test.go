package bird

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/bird/ctl"
	"vouch/routers/lab"
)

// findings are written one a line, severity first.
func findings(all []routers.Finding) string {
	var b strings.Builder
	for _, f := range all {
		fmt.Fprintf(&b, "%s %s: %s\n", f.Severity, f.Subject, f.Text)
	}
	return b.String()
}

// says tells whether a finding of that severity and subject has the text, and a way out where it needs one.
func says(all []routers.Finding, severity routers.Severity, subject, text string) bool {
	return slices.ContainsFunc(all, func(f routers.Finding) bool {
		return f.Severity == severity && strings.HasPrefix(f.Subject, subject) && strings.Contains(f.Text, text) &&
			(severity < routers.Warning || f.WayOut != "")
	})
}

// noNames are of a driver that was told no labels.
func noNames(o Options) *names { return newNames(o) }

func TestExamineScene(t *testing.T) {
	eachScene(t, func(t *testing.T, s *scene) {
		s.reconfigure(t, "configure", "protocol bgp core4 {", "protocol bgp core4 { graceful restart on;")
		d := s.daemons()
		defer d.close()
		sceneWait(t, "the scene to stand again", func() error { return sceneStands(s.sights(t, d)) })
		o := s.options().withDefaults()
		o.Peers = []string{"core4", "core6", "dead4", "quiet4", "ospf4", "ospf6", "nosuch"}
		all := d.examine(t.Context(), exam{o, noNames(o), &memo{}}, scenePrefixes)
		version, err := s.release.Version(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wants := []struct {
			severity      routers.Severity
			subject, text string
		}{
			{routers.Fine, "bird " + version, "answers"},
			{routers.Fine, "protocol core6", "can be given prefixes"},
			{routers.Fine, "protocol ospf4", "can be given prefixes"},
			{routers.Warning, "protocol dead4", "not established"},
			{routers.Warning, "protocol quiet4", "exports nothing"},
			{routers.Failing, "protocol nosuch", "bird has no such protocol"},
			{routers.Warning, sceneHidden.String(), "the static route of anycast4 is hidden by that of lodirect4"},
			{routers.Failing, sceneStatic.String(), "is given to core4, ospf4 by protocol anycast4, which taking the address off lo does not withdraw"},
			{routers.Failing, sceneRejected.String(), "is given to ospf4 by protocol other4"},
			{routers.Warning, sceneDirect6.String(), "not given to ospf6: its export filter (unnamed)"},
		}
		for _, w := range wants {
			if !says(all, w.severity, w.subject, w.text) {
				t.Errorf("does not say %q of %s", w.text, w.subject)
			}
		}
		if got := says(all, routers.Fine, "protocol core6 of bird6", "can be given prefixes") && says(all, routers.Fine, "bird6 "+version, "answers"); got != s.release.Split() {
			t.Errorf("which BIRD of two it is: %v", got)
		}
		if got := says(all, routers.Warning, "protocol core4", "graceful restart is on"); got == s.release.Split() {
			t.Errorf("graceful restart told: %v", got)
		}
		for _, p := range []netip.Prefix{sceneAbsent, sceneLearned, sceneDirect} {
			if says(all, routers.Warning, p.String(), "") || says(all, routers.Failing, p.String(), "") {
				t.Errorf("complains of %s", p)
			}
		}
		if t.Failed() {
			t.Log(findings(all))
		}
		if err := sceneStands(s.sights(t, d)); err != nil {
			t.Errorf("examining changed something: %v", err)
		}
	})
}

func TestExamineAway(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "bird.ctl")
	o := Options{Via: ViaSocket, Socket: missing, Socket6: missing, Timeout: time.Second}.withDefaults()
	d := newDaemons(o)
	defer d.close()
	all := d.examine(t.Context(), exam{o, noNames(o), &memo{}}, []netip.Prefix{sceneStatic, sceneStatic6})
	if len(all) != 1 || !says(all, routers.Failing, "bird", missing+": no such socket") {
		t.Error(findings(all))
	}
}

// A socket that bird's configuration restricts can be read, and is of no use.
func TestExamineRestricted(t *testing.T) {
	r := readRecording(t, "testdata/2.0.12/scene.txt")
	r[nobody], r["configure check"] = "8007 Access denied\n", "8007 Access denied\n"
	for _, name := range []string{"ospf4", "ospf6"} {
		r["show ospf interface "+quoted(name)] = "1015-" + name + ":\n0000 \n"
	}
	r["show status"] = strings.Replace(r["show status"], "Daemon is up and running", "Reconfiguration in progress", 1)
	examine := func() []routers.Finding {
		o := replayOptions(replay(t, r), nil).withDefaults()
		d := newDaemons(o)
		defer d.close()
		return d.examine(t.Context(), exam{o, noNames(o), &memo{}}, scenePrefixes)
	}
	if all := examine(); !says(all, routers.Failing, "bird 2.0.12", "its control socket is restricted") || !says(all, routers.Warning, "bird 2.0.12", "a reconfiguration is in progress") {
		t.Error(findings(all))
	}
	r = maps.Clone(r)
	r[nobody] = "8003 No protocols match\n"
	if all := examine(); says(all, routers.Failing, "", "restricted") {
		t.Error(findings(all))
	}
}

// birdc in place of a socket that is missing works, and is said.
func TestExamineByCommand(t *testing.T) {
	s := openScene(t, lab.BIRDHost, "")
	o := s.options()
	o.Via, o.Socket = ViaAuto, s.main.Socket()+".none"
	const knows = `for a; do test "$a" = "$SOCKET.none" && a=$SOCKET; set -- "$@" "$a"; shift; done; exec "$CLIENT" "$@"`
	o.Birdc = sceneScript(t, []string{"env", "SOCKET=" + s.main.Socket(), "CLIENT=" + s.main.Client()[0], "sh", "-c", knows, "sh"})
	d := newDaemons(o)
	defer d.close()
	all := d.examine(t.Context(), exam{o, noNames(o), &memo{}}, []netip.Prefix{sceneStatic})
	if !says(all, routers.Notice, "bird 2.0.12", "no such socket") {
		t.Error(findings(all))
	}
}

// A counter counts how often a BIRD is asked to look at its configuration.
type counter struct {
	talker
	checks int
}

func (c *counter) change(ctx context.Context, commands ...string) ([]ctl.Reply, error) {
	if slices.Contains(commands, "configure check") {
		c.checks++
	}
	return c.talker.change(ctx, commands...)
}

// BIRD is asked to look at its configuration again when one of the files has changed, or after a long time.
func TestChecksSeldom(t *testing.T) {
	p := openPair(t, lab.BIRDHost, StyleSwitch)
	c := &counter{talker: p.router.daemons.main}
	p.router.daemons.main = c
	old := func() {
		t.Helper()
		sceneWait(t, "the files to be old enough", func() error {
			if stampsOf(p.birds[0].ConfigFile()) == nil {
				return errors.New("young")
			}
			return nil
		})
	}
	asked := func(what string, want int) {
		t.Helper()
		before := c.checks
		p.examined(t)
		if got := c.checks - before; got != want {
			t.Errorf("%s: asked %d times, want %d", what, got, want)
		}
	}
	old()
	asked("first", 1)
	asked("again", 0)
	p.breakConfiguration(t)
	asked("with another bird.conf", 1)
	p.finds(t, routers.Failing, "bird 2.0.12", "would not start")
	old()
	asked("with it old", 1)
	asked("again", 0)
	p.finds(t, routers.Failing, "bird 2.0.12", "would not start")
	fatal(t, os.WriteFile(p.options.Include, []byte("# theirs\n"), 0o644))
	asked("with another file that it includes", 1)
	old()
	asked("with it old", 1)
	last := p.router.memo.verdicts[c]
	last.given = last.given.Add(-checkEvery)
	p.router.memo.verdicts[c] = last
	asked("after a long time", 1)
	asked("again", 0)
	last = p.router.memo.verdicts[c]
	last.version.Patch--
	p.router.memo.verdicts[c] = last
	asked("after an upgrade", 1)
}

func TestExamineWithoutPeers(t *testing.T) {
	rd := reading{peers: []protocol{{name: "core4", kind: kindBGP, channels: []channel{{name: "ipv4"}}}}}
	got := withoutPeers(rd.peers, "bird", []netip.Prefix{sceneStatic, sceneStatic6})
	if len(got) != 1 || !says(got, routers.Failing, "bird", "no peer to give "+sceneStatic6.String()+" to") {
		t.Error(findings(got))
	}
	var many []netip.Prefix
	for i := range 10 {
		many = append(many, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 32))
	}
	if got := withoutPeers(nil, "bird", many); len(got) != 1 || !strings.Contains(got[0].Text, "10.0.0.0/32, 10.0.0.1/32, 10.0.0.2/32 and 7 more") {
		t.Error(findings(got))
	}
}

// A direct route hides a static one only in the same table, and when it is the best.
func TestHidden(t *testing.T) {
	rd := reading{protocols: []protocol{{name: "lo", kind: kindDirect}, {name: "a", kind: kindStatic}, {name: "k", kind: "Kernel"}}}
	for name, test := range map[string]struct {
		own  []route
		want bool
	}{
		"hidden":        {[]route{{protocol: "lo", table: "t", best: true}, {protocol: "a", table: "t"}}, true},
		"it is best":    {[]route{{protocol: "a", table: "t", best: true}, {protocol: "lo", table: "t"}}, false},
		"none is best":  {[]route{{protocol: "lo", table: "t"}, {protocol: "a", table: "t"}}, false},
		"other table":   {[]route{{protocol: "lo", table: "u", best: true}, {protocol: "a", table: "t", best: true}}, false},
		"other tables'": {[]route{{protocol: "lo", table: "u", best: true}, {protocol: "a", table: "t"}}, false},
		"alone":         {[]route{{protocol: "lo", table: "t", best: true}}, false},
		"of the kernel": {[]route{{protocol: "k", table: "t", best: true}, {protocol: "a", table: "t"}}, false},
	} {
		if _, _, got := rd.hidden(sight{own: test.own}); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A neighbour that only offers to help with restarts is no reason to warn.
func TestRestartsGracefully(t *testing.T) {
	p := protocol{kind: kindBGP, details: []string{"Local capabilities", "Graceful restart", "Neighbor capabilities", "Graceful restart", "Restart time: 120"}}
	if p.restartsGracefully() {
		t.Error("the neighbour's own restart is taken for ours")
	}
	p.details = slices.Insert(p.details, 2, "Restart time: 120")
	if !p.restartsGracefully() {
		t.Error("ours is not seen")
	}
}
