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
		broken := want != "" && c.is == c.stage || name == "off, the route stays"
		if o.Stage != c.stage || o.Broken != broken || o.Detail != want {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

// A file is read again when it may have changed, and only then.
func TestLookIsCheap(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vouch.conf")
	fatal(t, os.WriteFile(path, []byte("one"), 0o644))
	m, read := &memo{}, 0
	look := func() string {
		return string(m.look(path, func(file) kept {
			read++
			_ = m.contested(path) // nobody else is held up by a file that does not answer
			return kept{}
		}).text)
	}
	if look(); look() != "one" || read != 2 {
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
