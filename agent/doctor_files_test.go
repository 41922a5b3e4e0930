package agent

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vouch/agent/internal/cli"
	"vouch/agent/internal/config"
	"vouch/routers"
	"vouch/routers/bird"
	"vouch/routers/detect"
	"vouch/routers/lab"
)

// The file that is to be replaced is looked at for the user that vouch runs as.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "vouch.conf"), filepath.Join(t.TempDir(), "link.conf")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	shut := filepath.Join(dir, "shut") // to its owner, so that it is known who has looked
	if err := os.Mkdir(shut, 0); err != nil {
		t.Fatal(err)
	}
	vouch := detect.User{Name: "vouch", UID: uint32(os.Geteuid()) + 4242}
	want := dir + " (d"
	for name, c := range map[string]struct {
		rc   config.Router
		who  detect.User
		want int
	}{
		"no file":         {config.Router{}, vouch, 0},
		"closed":          {config.Router{Include: path}, vouch, 1},
		"by a link":       {config.Router{Include: link}, vouch, 1},
		"two":             {config.Router{Include: path, Include6: link}, vouch, 2},
		"the driver's":    {config.Router{Include: filepath.Join(shut, "vouch.conf")}, detect.User{UID: uint32(os.Geteuid())}, 0},
		"of one who may":  {config.Router{Include: path}, detect.User{UID: 4242, Any: true}, 0},
		"not there (yet)": {config.Router{Include: path + ".none"}, vouch, 1},
	} {
		got := files(c.rc, c.who)
		if len(got) != c.want {
			t.Errorf("%s: %q", name, lines(got))
		}
		for _, f := range got {
			if f.Severity != routers.Failing || !strings.Contains(f.Text, want) || !strings.Contains(f.WayOut, "install -d -o vouch") {
				t.Errorf("%s: %q", name, lines(got))
			}
		}
	}
}

// On a real BIRD: a file that is missing is found, and the doctor does not make it; one that vouch wrote is well.
func TestDoctorOfAnIncludeFile(t *testing.T) {
	t.Parallel()
	node, err := lab.Open(t, lab.BIRDHost).Node("node")
	must(t, err)
	b, err := node.BIRD(t.Context(), lab.BIRDHost, "router id 10.0.0.2;\nprotocol device { }\n")
	must(t, err)
	path := b.Path("vouch.conf")
	must(t, b.WriteConfig(fmt.Sprintf("router id 10.0.0.2;\nprotocol device { }\ninclude %q;\nprotocol static a { disabled RESOLVER_OFF; ipv4; route 10.53.53.53/32 blackhole; }\n", path)))
	table := fmt.Sprintf("daemon = \"bird\"\nmethod = \"include\"\ninclude = %q\nsocket = %q\n", path, b.Socket())
	has := func(r *cli.DoctorReport, begins string) bool {
		return slices.ContainsFunc(lines(r.Findings), func(l string) bool { return strings.HasPrefix(l, begins) })
	}
	r := doctorOn(t, node, table)
	if !has(r, "fail "+path+": is not there, though bird.conf includes it") || !r.Router.OK {
		t.Errorf("missing: %q", lines(r.Findings))
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the doctor wrote it")
	}
	router := bird.New(bird.Options{Method: bird.MethodInclude, Include: path, Socket: b.Socket()})
	defer router.Close()
	p := netip.MustParsePrefix("10.53.53.53/32")
	router.SetLabels(map[netip.Prefix]routers.Label{p: {Service: "resolver"}})
	must(t, router.Apply(t.Context(), []routers.Change{{Prefix: p, Want: routers.Withdrawn}}))
	r = doctorOn(t, node, table)
	if !has(r, "ok "+path+": is vouch's to write") || !has(r, "ok RESOLVER_OFF: is in force, for 10.53.53.53/32") {
		t.Errorf("written: %q", lines(r.Findings))
	}
}
