package detect

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vouch/routers"
	"vouch/routers/bird"
)

// BIRD does not start without the file that it includes: where BIRD alone may come, it is made, with everything off,
// also what an earlier run left. Where another daemon may come it is not, nor by reading.
func TestFileIsMadeForBIRD(t *testing.T) {
	for _, only := range [][]string{{"bird"}, nil} {
		dir := t.TempDir()
		o := Options{Only: only, BIRD: bird.Options{Method: bird.MethodInclude, Include: filepath.Join(dir, "vouch.conf"), Socket: filepath.Join(dir, "none.ctl"), Birdc: filepath.Join(dir, "none")}}
		o.FRR.SocketDir = dir
		r := New(o)
		r.SetLabels(map[netip.Prefix]routers.Label{v4: {Service: "one"}, v6: {Service: "left"}})
		r.SetLabels(map[netip.Prefix]routers.Label{v4: {Service: "one"}})
		os1, err := r.Observe(within(t), []netip.Prefix{v4, v6})
		if os1[0].Stage != routers.Unknown || !errors.Is(err, routers.ErrUnavailable) {
			t.Errorf("%v: %+v, %v", only, os1, err)
		}
		if _, err := os.Stat(o.BIRD.Include); err == nil {
			t.Errorf("%v: made by reading", only)
		}
		must(t, r.Prepare(within(t), []netip.Prefix{v4, v6}))
		text, _ := os.ReadFile(o.BIRD.Include)
		if made := strings.Contains(string(text), "define ONE_OFF = 1;\n"); made != (only != nil) {
			t.Errorf("%v: the file: %s", only, text)
		}
		if left := strings.Contains(string(text), v6.String()+" left LEFT_OFF -\n"); left != (only != nil) {
			t.Errorf("%v: what is left: %s", only, text)
		}
		must(t, r.Close())
	}
}
