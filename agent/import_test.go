package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A pkg is what go list says of one package.
type pkg struct {
	ImportPath string
	Name       string
	Imports    []string
}

// rules are the walls of the house: who may not import what. A package matches a prefix that ends
// in "/", or by its whole path.
var rules = []struct{ who, not, but, why []string }{
	{who: []string{"vouch/checks/", "vouch/checks", "vouch/routers/", "vouch/routers"}, not: []string{"vouch/agent/", "vouch/agent"},
		why: []string{"checks and routers know nothing of the agent"}},
	{who: []string{"vouch/agent/internal/health", "vouch/agent/internal/decide", "vouch/agent/internal/reconcile"},
		not: []string{"net", "os", "os/exec", "log/slog", "github.com/prometheus/"}, why: []string{"decisions are pure"}},
	{who: []string{"vouch/"}, not: []string{"os/exec"}, but: []string{"vouch/routers/command", "vouch/routers/lab", "vouch/checks/checktest", "vouch/contrib/"},
		why: []string{"programs are run in one place"}},
	{who: []string{"vouch/"}, not: []string{"testing"}, but: []string{"vouch/checks/checktest", "vouch/routers/routertest", "vouch/routers/rtnl/rtnltest"},
		why: []string{"testing stays out of the program"}},
	{who: []string{"vouch/"}, not: []string{"github.com/vishvananda/"}, but: []string{"vouch/routers/rtnl", "vouch/routers/lab"},
		why: []string{"netlink stays behind routers/rtnl"}},
	{who: []string{"vouch/"}, not: []string{"github.com/quic-go/"}, but: []string{"vouch/checks/http", "vouch/checks/checktest", "vouch/contrib/bench"},
		why: []string{"QUIC stays in the check that needs it"}},
	{who: []string{"vouch/"}, not: []string{"github.com/beevik/"}, but: []string{"vouch/checks/ntp", "vouch/checks/checktest"},
		why: []string{"NTP stays in the check that needs it"}},
	{who: []string{"vouch/"}, not: []string{"github.com/godbus/", "github.com/coreos/go-systemd/v22/dbus"}, but: []string{"vouch/checks/unit", "vouch/checks/checktest"},
		why: []string{"D-Bus stays in the check that needs it"}},
}

// shared may be imported by every kind and driver.
var shared = []string{"vouch/checks", "vouch/checks/datagram", "vouch/checks/listener", "vouch/checks/payload", "vouch/checks/trust",
	"vouch/routers", "vouch/routers/rtnl", "vouch/routers/rtnl/hub", "vouch/routers/command"}

func TestImports(t *testing.T) {
	pkgs := list(t)
	if len(pkgs) < 15 {
		t.Fatalf("only %d packages found", len(pkgs))
	}
	for _, p := range pkgs {
		for _, r := range rules {
			if !matches(p.ImportPath, r.who) || matches(p.ImportPath, r.but) {
				continue
			}
			for _, imp := range p.Imports {
				if matches(imp, r.not) {
					t.Errorf("%s imports %s: %s", p.ImportPath, imp, r.why[0])
				}
			}
		}
	}
}

func TestKindsAndDriversStandAlone(t *testing.T) {
	may := map[string][]string{"vouch/checks/kinds": {"vouch/checks/"}, "vouch/routers/lab": {"vouch/routers/"},
		"vouch/routers/vyos": {"vouch/routers/frr"}, "vouch/routers/detect": {"vouch/routers/"}, "vouch/routers/routertest": {"vouch/routers/"}}
	for _, p := range list(t) {
		if !matches(p.ImportPath, []string{"vouch/checks/", "vouch/routers/"}) {
			continue
		}
		for _, imp := range p.Imports {
			own := strings.HasPrefix(imp, room(p.ImportPath)+"/") || imp == room(p.ImportPath)
			if strings.HasPrefix(imp, "vouch/") && !own && !slices.Contains(shared, imp) && !matches(imp, may[p.ImportPath]) {
				t.Errorf("%s imports %s: a kind or driver stands alone", p.ImportPath, imp)
			}
		}
	}
}

// room gives the kind or driver that a package belongs to, such as vouch/routers/frr.
func room(path string) string {
	return strings.Join(strings.SplitN(path, "/", 4)[:3], "/")
}

func matches(path string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		return path == p || strings.HasSuffix(p, "/") && strings.HasPrefix(path, p)
	})
}

func list(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Name,Imports", "vouch/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}
