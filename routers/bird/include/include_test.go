package include

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vouch/routers"
	"vouch/routers/bird/ctl"
)

var (
	bird1 = ctl.Version{Major: 1, Minor: 6, Patch: 8}
	bird2 = ctl.Version{Major: 2, Patch: 12}
	bird3 = ctl.Version{Major: 3, Minor: 1, Patch: 8}
)

var entries = []Entry{
	{netip.MustParsePrefix("192.0.2.53/32"), routers.Announced, "DNS", "WORSE"},
	{netip.MustParsePrefix("192.0.2.54/32"), routers.Withdrawn, "DNS", "WORSE"},
	{netip.MustParsePrefix("192.0.2.55/32"), routers.Degraded, "NTP", "NTP_WORSE"},
	{netip.MustParsePrefix("2001:db8::53/128"), routers.Announced, "DNS6", ""},
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
	old := string(Render(Format{Style: Function, Version: bird1}, entries[1:2]))
	want = "define DNS_set4 = [ 0.0.0.0/32 ];\nfunction DNS()\n{\n\treturn false;\n}\n"
	if !strings.Contains(old, want) || strings.Contains(old, "set6") {
		t.Errorf("for BIRD 1.6:\n%s\nwant in it\n%s", old, want)
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
		head + "#vouch 192.0.2.53/32 keep A -\n", head + "#vouch 192.0.2.53/32 nonsense A -\n", head + "#vouch bird two\n"} {
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
