package include

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"vouch/routers"
	"vouch/routers/bird/ctl"
)

var (
	bird1 = ctl.Version{Major: 1, Minor: 6, Patch: 8}
	bird7 = ctl.Version{Major: 2, Patch: 7}
	bird2 = ctl.Version{Major: 2, Patch: 12}
	bird3 = ctl.Version{Major: 3, Minor: 1, Patch: 8}
)

func entry(p string, w routers.Want, symbol, worse string, s Standing) Entry {
	return Entry{netip.MustParsePrefix(p), w, symbol, worse, s}
}

var entries = []Entry{
	entry("192.0.2.53/32", routers.Announced, "DNS", "WORSE", Managed),
	entry("192.0.2.54/32", routers.Withdrawn, "DNS", "WORSE", Managed),
	entry("192.0.2.55/32", routers.Degraded, "NTP", "NTP_WORSE", Managed),
	entry("2001:db8::53/128", routers.Announced, "DNS6", "", Managed),
}

func TestRender(t *testing.T) {
	attributes := Attributes{Community: []string{"65001:666", "65001:0:666"}, MED: 5, Prepend: []uint32{65001, 65001}, Metric2: 70}
	for _, c := range []struct {
		name string
		f    Format
		want string
	}{
		{"switch: the least of one symbol counts", Format{Style: Switch, Version: bird2},
			"define DNS = 1;\ndefine DNS6 = 0;\ndefine NTP = 1;\ndefine NTP_WORSE = 0;\ndefine WORSE = 1;\n"},
		{"list", Format{Style: List, Version: bird2}, "define DNS = [ 192.0.2.53/32 ];\ndefine DNS6 = [ 2001:db8::53/128 ];\ndefine NTP = [  ];\n" +
			"define NTP_WORSE = [ 192.0.2.55/32 ];\ndefine WORSE = [  ];\n"},
		{"list: a set of 2.0.7 is never empty, and of one family", Format{Style: List, Version: bird7}, "define DNS = [ 192.0.2.53/32 ];\n" +
			"define DNS6 = [ 2001:db8::53/128 ];\ndefine NTP = [ 0.0.0.0/32 ];\ndefine NTP_WORSE = [ 192.0.2.55/32 ];\ndefine WORSE = [ 0.0.0.0/32 ];\n"},
		{"routes", Format{Style: Routes, Version: bird2, Attributes: attributes}, "protocol static DNS {\n\tipv4;\n\troute 192.0.2.53/32 blackhole;\n}\n" +
			"protocol static DNS6 {\n\tipv6;\n\troute 2001:db8::53/128 blackhole;\n}\nprotocol static NTP {\n\tipv4;\n\troute 192.0.2.55/32 blackhole { " +
			"bgp_community.add((65001,666)); bgp_large_community.add((65001,0,666)); bgp_med = 5; bgp_path.prepend(65001); bgp_path.prepend(65001); ospf_metric2 = 70; };\n}\n"},
	} {
		got := string(Render(c.f, entries))
		if !strings.HasSuffix(got, c.want) {
			t.Errorf("%s:\n%s\nwant at its end\n%s", c.name, got, c.want)
		}
		if back, err := Parse([]byte(got)); err != nil || back.Version != c.f.Version || !slices.Equal(back.Entries, entries) {
			t.Errorf("%s is read back as %+v, %v", c.name, back, err)
		}
	}
	withdrawn := []Entry{entry("192.0.2.53/32", routers.Withdrawn, "A", "", Managed), entry("2001:db8::53/128", routers.Withdrawn, "A6", "", Managed)}
	if got := string(Render(Format{Style: List, Version: bird7}, withdrawn)); !strings.HasSuffix(got, "define A = [ 0.0.0.0/32 ];\ndefine A6 = [ ::/128 ];\n") {
		t.Errorf("a set of IPv6 without members: %s", got)
	}
	reversed := slices.Clone(entries)
	slices.Reverse(reversed)
	if string(Render(Format{Style: List}, reversed)) != string(Render(Format{Style: List}, entries)) {
		t.Error("the order of the entries matters")
	}
}

func TestRenderFunction(t *testing.T) {
	got := string(Render(Format{Style: Function, Version: bird3}, entries[:2]))
	want := "define DNS_set4 = [ 192.0.2.53/32 ];\ndefine DNS_set6 = [  ];\nfunction DNS() -> bool\n{\n\treturn net ~ DNS_set4;\n}\n"
	if !strings.Contains(got, want) {
		t.Errorf("%s\nwant in it\n%s", got, want)
	}
	seven := string(Render(Format{Style: Function, Version: bird7}, entries[3:]))
	want = "define DNS6_set4 = [ 0.0.0.0/32 ];\ndefine DNS6_set6 = [ 2001:db8::53/128 ];\nfunction DNS6()\n{\n\treturn net ~ DNS6_set6;\n}\n"
	if !strings.Contains(seven, want) {
		t.Errorf("for BIRD 2.0.7:\n%s\nwant in it\n%s", seven, want)
	}
	old := string(Render(Format{Style: Function, Version: bird1}, entries[1:2]))
	want = "define DNS_set4 = [ 0.0.0.0/32 ];\nfunction DNS()\n{\n\treturn false;\n}\n"
	if !strings.Contains(old, want) || strings.Contains(old, "set6") {
		t.Errorf("for BIRD 1.6:\n%s\nwant in it\n%s", old, want)
	}
}

// What is managed decides. What it went by before follows it, and what nobody manages is off; both are defined.
func TestStandings(t *testing.T) {
	const one, two, three = "192.0.2.53/32", "192.0.2.54/32", "192.0.2.55/32"
	for name, c := range map[string]struct {
		style string
		es    []Entry
		want  string
	}{
		"one that has left, and shares":  {Switch, []Entry{entry(one, routers.Withdrawn, "A", "", Left), entry(two, routers.Announced, "A", "", Managed)}, "define A = 0;\n"},
		"one that has left":              {Switch, []Entry{entry(one, routers.Withdrawn, "A", "AW", Left), entry(two, routers.Announced, "B", "", Managed)}, "define A = 1;\ndefine AW = 1;\ndefine B = 0;\n"},
		"renamed, announced":             {Switch, []Entry{entry(one, routers.Announced, "B", "BW", Managed), entry(one, routers.Announced, "A", "AW", Former)}, "define A = 0;\ndefine AW = 1;\ndefine B = 0;\ndefine BW = 1;\n"},
		"renamed, degraded":              {Switch, []Entry{entry(one, routers.Degraded, "B", "BW", Managed), entry(one, routers.Degraded, "A", "AW", Former)}, "define A = 1;\ndefine AW = 0;\ndefine B = 1;\ndefine BW = 0;\n"},
		"the former name is another's":   {Switch, []Entry{entry(one, routers.Announced, "B", "", Managed), entry(one, routers.Announced, "A", "", Former), entry(two, routers.Withdrawn, "A", "", Managed)}, "define A = 1;\ndefine B = 0;\n"},
		"names that have changed places": {Switch, []Entry{entry(one, routers.Announced, "B", "A", Managed), entry(one, routers.Announced, "A", "B", Former)}, "define A = 1;\ndefine B = 0;\n"},
		"list": {List, []Entry{entry(one, routers.Announced, "B", "", Managed), entry(one, routers.Announced, "A", "", Former), entry(two, routers.Withdrawn, "C", "", Left)},
			"define A = [ 192.0.2.53/32 ];\ndefine B = [ 192.0.2.53/32 ];\ndefine C = [  ];\n"},
		"routes are not had twice": {Routes, []Entry{entry(one, routers.Announced, "b", "", Managed), entry(one, routers.Announced, "a", "", Former), entry(three, routers.Withdrawn, "b", "", Left)},
			"protocol static b {\n\tipv4;\n\troute 192.0.2.53/32 blackhole;\n}\n"},
	} {
		text := string(Render(Format{Style: c.style, Version: bird2}, c.es))
		if _, got, _ := strings.Cut(text, "#vouch end\n"); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, text, c.want)
		}
		f, err := Parse([]byte(text))
		if again := string(Render(Format{Style: c.style, Version: bird2}, f.All())); err != nil || again != text {
			t.Errorf("%s: read back as\n%s\n%v", name, again, err)
		}
	}
}

// What a prefix is by what the file defines.
func TestDecided(t *testing.T) {
	one, two := entry("192.0.2.53/32", routers.Withdrawn, "A", "", Left), entry("192.0.2.54/32", routers.Announced, "A", "", Managed)
	three := entry("192.0.2.55/32", routers.Withdrawn, "A", "", Managed)
	for name, c := range map[string]struct {
		style string
		es    []Entry
		want  [3]routers.Want // 0: not in it
	}{
		"what is managed decides":  {Switch, []Entry{one, two}, [3]routers.Want{routers.Announced, routers.Announced}},
		"the least of it":          {Switch, []Entry{two, three}, [3]routers.Want{0, routers.Withdrawn, routers.Withdrawn}},
		"sets are each one's own":  {List, []Entry{one, two, three}, [3]routers.Want{routers.Withdrawn, routers.Announced, routers.Withdrawn}},
		"former names say nothing": {List, []Entry{two, entry("192.0.2.54/32", routers.Withdrawn, "B", "", Former)}, [3]routers.Want{0, routers.Announced}},
	} {
		got := Decided(c.style, c.es)
		if got := [3]routers.Want{got[one.Prefix], got[two.Prefix], got[three.Prefix]}; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A file cut short, or of somebody else's, is not taken for what it is not.
func TestParseRefuses(t *testing.T) {
	whole := Render(Format{Style: Switch}, entries)
	for cut := range len(whole) {
		f, err := Parse(whole[:cut])
		if err == nil && !slices.Equal(f.Entries, entries) || !slices.Equal(f.Entries, entries[:len(f.Entries)]) {
			t.Fatalf("cut after %d bytes: %+v, %v", cut, f, err)
		}
	}
	for _, text := range []string{"", "define X = 1;\n", head + "#vouch 192.0.2.53/32 announced\n", head + "#vouch 192.0.2.53 announced A -\n",
		head + "#vouch 192.0.2.53/32 keep A -\n", head + "#vouch 192.0.2.53/32 former A\n", head + "#vouch 192.0.2.53/32 nonsense A -\n", head + "#vouch bird two\n"} {
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "vouch.conf")
	if text, err := Read(path); text != nil || err != nil {
		t.Fatalf("a missing file: %q, %v", text, err)
	}
	for _, text := range []string{"one", "two"} {
		if err := Write(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(path); string(got) != text || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	if all, _ := os.ReadDir(dir); len(all) != 1 {
		t.Errorf("left behind: %v", all)
	}
	if err := Write(path, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("not removed: %v", err)
	}
	if err := Write(filepath.Join(dir, "none", "vouch.conf"), []byte("x")); !errors.Is(err, routers.ErrRefused) {
		t.Errorf("a missing directory: %v", err)
	}
	if err := Write(dir, []byte("x")); !errors.Is(err, routers.ErrRefused) {
		t.Errorf("a directory: %v", err)
	}
}

// What is no file is not read, nor waited for, and of a file only so much.
func TestReadsFilesAlone(t *testing.T) {
	pipe, long := filepath.Join(t.TempDir(), "pipe"), filepath.Join(t.TempDir(), "long")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(long, nil, 0o600), os.Truncate(long, mostText+1)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{pipe: "is no file", long: "is longer than 16 MiB", t.TempDir(): "is a directory", os.DevNull: "is no file"} {
		if _, err := Read(path); !errors.Is(err, routers.ErrRefused) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A link stays one, wherever it leads, and what it leads to keeps its mode. Nothing is left beside either.
func TestWriteThroughLinks(t *testing.T) {
	for _, there := range []bool{true, false} {
		dir, etc := t.TempDir(), t.TempDir()
		real, link := filepath.Join(dir, "real.conf"), filepath.Join(etc, "vouch.conf")
		target, err := filepath.Rel(etc, real)
		if there {
			err = errors.Join(err, os.WriteFile(real, []byte("old"), 0o640), os.Chmod(real, 0o640))
		}
		if err := errors.Join(err, os.Symlink(target, link)); err != nil {
			t.Fatal(err)
		}
		if err := Write(link, []byte("new")); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(real)
		if to, lerr := os.Readlink(link); string(got) != "new" || err != nil || to != target || lerr != nil {
			t.Errorf("with a file %t: it has %q, %v; the link leads to %q, %v", there, got, err, to, lerr)
		}
		info, err := os.Stat(real)
		if mode := map[bool]os.FileMode{true: 0o640, false: 0o644}[there]; err != nil || info.Mode().Perm() != mode {
			t.Errorf("with a file %t: mode %v, %v", there, info.Mode(), err)
		}
		for _, d := range []string{dir, etc} {
			if all, _ := os.ReadDir(d); len(all) != 1 {
				t.Errorf("left behind: %v", all)
			}
		}
	}
}
