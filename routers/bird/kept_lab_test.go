package bird

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vouch/routers"
	"vouch/routers/bird/ctl"
	"vouch/routers/bird/include"
	"vouch/routers/lab"
)

// A file that is lost while BIRD runs is seen, announced or not, and is there again with the next change: BIRD
// would not start without it. One that is another's is left alone, and changes nothing of what is read.
func TestFileIsLost(t *testing.T) {
	for _, r := range lab.BIRDs {
		t.Run(fmt.Sprint(r), func(t *testing.T) {
			t.Parallel()
			p := openPair(t, r, StyleSwitch)
			for want, stage := range map[routers.Want]routers.Stage{routers.Withdrawn: routers.Absent, routers.Announced: routers.Advertised} {
				p.settle(t, want)
				fatal(t, os.Remove(p.options.Include))
				if o := p.observed(t)[0]; o.Stage != stage || !o.Broken || !strings.Contains(o.Detail, p.options.Include+" is not there") {
					t.Errorf("%s, without the file: %+v", want, o)
				}
				fatal(t, p.apply(t, changes(want)))
				if o := p.observed(t)[0]; o.Stage != stage || o.Broken {
					t.Errorf("%s, with it again: %+v", want, o)
				}
			}
			fatal(t, p.birds[0].Restart(t.Context()))
			fatal(t, os.WriteFile(p.options.Include, []byte("define DNS_OFF = 0;\n"), 0o644))
			if o := p.observed(t)[0]; o.Broken {
				t.Errorf("with another's file: %+v", o)
			}
			if err := p.apply(t, changes(routers.Withdrawn)); !errors.Is(err, routers.ErrRefused) {
				t.Errorf("another's file: %v", err)
			}
		})
	}
}

// What a file says for when BIRD reads it next, beside what was read of BIRD.
func TestKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vouch.conf")
	r := newRouter(Options{Method: MethodInclude, Include: path}.withDefaults(), daemons{deaf{}, deaf{}})
	r.SetLabels(map[netip.Prefix]routers.Label{four: {Service: "dns"}})
	b := r.method.(byInclude)
	render := func(w routers.Want, p netip.Prefix, symbol string) string {
		return string(include.Render(b.format(ctl.Version{Major: 2}), []include.Entry{{Prefix: p, Want: w, Symbol: symbol}}))
	}
	on, off, unknown := value{known: true, normal: true}, value{known: true}, value{}
	for name, c := range map[string]struct {
		text   string
		is     routers.Stage
		v      value
		stage  routers.Stage
		detail string // with broken where the stage is as it was
	}{
		"none":                    {"", routers.Absent, off, routers.Absent, " is not there"},
		"of another prefix":       {render(routers.Announced, six, "DNS_OFF"), routers.Absent, off, routers.Absent, " does not have it"},
		"by another name":         {render(routers.Withdrawn, four, "OLD_OFF"), routers.Absent, off, routers.Absent, " has it by other symbols"},
		"edited":                  {strings.ReplaceAll(render(routers.Withdrawn, four, "DNS_OFF"), "OFF = 1", "OFF = 0"), routers.Absent, off, routers.Absent, " is not as vouch wrote it"},
		"cut short":               {strings.ReplaceAll(render(routers.Withdrawn, four, "DNS_OFF"), "#vouch end\n", ""), routers.Absent, off, routers.Absent, " is not as vouch wrote it"},
		"on, the route stays":     {render(routers.Announced, four, "DNS_OFF"), routers.Configured, off, routers.Configured, ""},
		"off, and so is bird":     {render(routers.Withdrawn, four, "DNS_OFF"), routers.Absent, off, routers.Absent, ""},
		"on, and so is bird":      {render(routers.Announced, four, "DNS_OFF"), routers.Advertised, on, routers.Advertised, ""},
		"on, while bird is off":   {render(routers.Announced, four, "DNS_OFF"), routers.Absent, off, routers.Configured, " says that it is announced, for when bird reads that"},
		"off, while bird is on":   {render(routers.Withdrawn, four, "DNS_OFF"), routers.Advertised, on, routers.Advertised, " says that it is withdrawn, for when bird reads that"},
		"off, the route stays":    {render(routers.Withdrawn, four, "DNS_OFF"), routers.Advertised, off, routers.Advertised, ""},
		"off, bird cannot be had": {"", routers.Unknown, unknown, routers.Unknown, ""},
	} {
		_ = os.Remove(path)
		if c.text != "" {
			fatal(t, os.WriteFile(path, []byte(c.text), 0o644))
		}
		o := routers.Observation{Prefix: four, Stage: c.is}
		if o.Stage != routers.Unknown {
			b.keeps(b.memo.look(path, b.reckon), &o, c.v)
		}
		want := c.detail
		if want != "" {
			want = path + want
		}
		broken := want != "" && c.is == c.stage || strings.HasSuffix(name, ", the route stays")
		if o.Stage != c.stage || o.Broken != broken || o.Detail != want {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

// What keeps the file from coming into force, and what is no such thing.
func TestHindered(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vouch.conf")
	r := newRouter(Options{Method: MethodInclude, Include: path}.withDefaults(), daemons{deaf{v: ctl.Version{Major: 2}}, deaf{}})
	r.SetLabels(map[netip.Prefix]routers.Label{four: {Service: "dns"}, six: {Service: "dns"}})
	b := r.method.(byInclude)
	unknown := value{name: "DNS_OFF"}
	for name, c := range map[string]struct {
		symbol   string // in the file; empty: there is no file
		v        value
		hindered bool
	}{
		"no file, and not known":     {"", unknown, true},
		"no file, but known":         {"", value{name: "DNS_OFF", known: true}, false},
		"in the file, and not known": {"DNS_OFF", unknown, true},
		"in the file, and known":     {"DNS_OFF", value{name: "DNS_OFF", known: true}, false},
		"not in the file yet":        {"OLD_OFF", unknown, false},
		"not told":                   {"DNS_OFF", value{name: "DNS_OFF", failed: true}, false},
	} {
		_ = os.Remove(path)
		if c.symbol != "" {
			text := include.Render(b.format(ctl.Version{Major: 2}), []include.Entry{{Prefix: four, Want: routers.Withdrawn, Symbol: c.symbol}})
			fatal(t, os.WriteFile(path, text, 0o644))
		}
		seen := []routers.Observation{{Prefix: four, Stage: routers.Absent}}
		b.kept(t.Context(), []part{{r.daemons.main, both[:1]}}, nil, map[netip.Prefix]value{four: c.v}, seen)
		if got := seen[0].Hindered; got != "" != c.hindered || c.hindered && !strings.Contains(got, "DNS_OFF: write `include \""+path) {
			t.Errorf("%s: %q", name, got)
		}
	}
	r.SetLabels(map[netip.Prefix]routers.Label{four: {Service: "dns"}})
	seen := []routers.Observation{{Prefix: six, Stage: routers.Absent}}
	b.kept(t.Context(), []part{{r.daemons.main, both[1:]}}, nil, map[netip.Prefix]value{six: unknown}, seen)
	if o := seen[0]; o.Broken || o.Hindered != "" {
		t.Errorf("what has left is of no account: %+v", o)
	}
	b.kept(t.Context(), []part{{deaf{v: ctl.Version{Major: 1}}, both[1:]}}, nil, nil, seen)
	if got := seen[0].Hindered; !strings.Contains(got, "set include6") {
		t.Errorf("bird6 without a file: %q", got)
	}
	a, unread := byAddress{options: Options{Interface: "lo"}}, sight{err: routers.ErrUnavailable}
	if got := a.hinders(routers.Observation{Prefix: four}, unread); got != "" || !unread.has("dns") {
		t.Errorf("a bird that could not be asked: %q", got)
	}
	if got := a.hinders(routers.Observation{Prefix: four, Stage: routers.Selected}, sight{}); got != "" {
		t.Errorf("a prefix that is taken all the same: %q", got)
	}
}

// What was disabled at run time is told apart by the BIRD that has it: the two of 1.6 may have protocols by one name.
func TestRestsOfTwo(t *testing.T) {
	one, other := deaf{v: ctl.Version{Major: 1}}, deaf{v: ctl.Version{Major: 1}, asked: new(int)}
	m := &memo{}
	m.disabled(one, map[string]map[netip.Prefix]bool{"anycast": {four: true}}, errors.New("full"))
	m.disabled(other, map[string]map[netip.Prefix]bool{"anycast": {six: true}}, errors.New("closed"))
	if got := m.ask(one, changes(routers.Announced)); len(got) != 1 || len(got["anycast"]) != 1 || got["anycast"][four] != routers.Announced {
		t.Errorf("of the one: %v", got)
	}
	m.mended(one)
	if got := m.resting(other, []string{"anycast"}, "DNS_OFF"); !strings.Contains(got, "(closed)") {
		t.Errorf("of the other: %s", got)
	}
	if got := m.ask(other, nil); len(got) != 1 || got["anycast"][six] != routers.Withdrawn {
		t.Errorf("of the other: %v", got)
	}
	if got := m.ask(one, nil); len(got) != 0 {
		t.Errorf("of what is mended: %v", got)
	}
}

// A file that could not be written is known as it was.
func TestKnownAfterFailedWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bird", "vouch.conf")
	fatal(t, os.Mkdir(filepath.Dir(path), 0o755))
	m := &memo{}
	fatal(t, m.write(path, []byte("ours")))
	fatal(t, os.RemoveAll(filepath.Dir(path)))
	if err := m.write(path, []byte("new")); err == nil {
		t.Fatal("written without a directory")
	}
	fatal(t, os.Mkdir(filepath.Dir(path), 0o755))
	for text, known := range map[string]bool{"ours": true, "new": false} {
		fatal(t, os.WriteFile(path, []byte(text), 0o644))
		if m.knows(path) != known {
			t.Errorf("%q is known: %v", text, !known)
		}
	}
}

// A file is read again when it may have changed, and only then.
func TestLookIsCheap(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vouch.conf")
	m, read := &memo{}, 0
	look := func() string {
		return string(m.look(path, func(file) kept {
			read++
			_ = m.contested(path) // nobody else is held up by a file that does not answer
			return kept{}
		}).text)
	}
	for sure := true; sure; _, sure = stampOf(path) { // in its youth, also on a busy machine
		fatal(t, os.WriteFile(path, []byte("one"), 0o644))
		read = 0
		if look(); look() != "one" || read < 1 {
			t.Errorf("it was read %d times", read)
		}
	}
	if read != 2 {
		t.Errorf("a young file, which may be written again at the same time: read %d times", read)
	}
	sceneWait(t, "the file to be old enough", func() error {
		if _, sure := stampOf(path); !sure {
			return errors.New("young")
		}
		return nil
	})
	read = 0
	if look(); look() != "one" || read != 1 {
		t.Errorf("an old file: read %d times", read)
	}
	fatal(t, os.WriteFile(path, []byte("two"), 0o644)) // as long as before
	if got := look(); got != "two" {
		t.Errorf("a new file: %q", got)
	}
	fatal(t, os.Remove(path))
	if got := look(); got != "" {
		t.Errorf("no file: %q", got)
	}
}
