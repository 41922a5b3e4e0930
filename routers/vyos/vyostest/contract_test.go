package vyostest_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"vouch/routers/command"
	"vouch/routers/lab"
	"vouch/routers/vyos/vyostest"
)

// patience is how long a test waits for a state.
const patience = 30 * time.Second

// A result is what one program left. Texts are without blank lines and indents, as these differ by release.
type result struct {
	code     int
	out, err string
}

// A router is VyOS, a real one or the stand-in.
type router struct {
	testing.TB
	root   string
	env    []string
	system *vyostest.System // nil: a real one
	node   *lab.Node
	frr    *lab.FRR
}

// real says whether the tests run on a router, which somebody has to ask for.
func real() bool { return os.Getenv("VYOS_ROOT") == "/" }

// open gives the router that the environment names, and otherwise a stand-in over a real FRR.
func open(t testing.TB, o vyostest.Options) *router {
	t.Helper()
	if root := os.Getenv("VYOS_ROOT"); root != "" {
		if !real() {
			t.Fatalf("VYOS_ROOT is %q: only / is a router; without it the stand-in is tested", root)
		}
		return &router{TB: t, root: "/", env: vyostest.RealEnv()}
	}
	n := lab.Open(t)
	node, err := n.Node("vyos")
	if err != nil {
		t.Fatal(err)
	}
	frr, err := node.FRR(t.Context(), "hostname vyos\nrouter bgp 65001\n bgp router-id 198.51.100.1\n", "staticd", "bgpd")
	if err != nil {
		t.Fatal(err)
	}
	o.SocketDir = frr.SocketDir()
	s := vyostest.New(t, o)
	return &router{TB: t, root: s.Root(), env: s.Env(), system: s, node: node, frr: frr}
}

// run runs a program of the system with more variables, in the group that it needs.
func (r *router) run(env []string, path string, args ...string) result {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 3*time.Minute)
	defer cancel()
	line := "umask 0002; exec " + quote(append([]string{r.path(path)}, args...))
	out, err := command.Run(ctx, command.Spec{Path: r.path("/usr/bin/sg"), Args: []string{"vyattacfg", "-c", line},
		Env: slices.Concat(r.env, env), MaxOutput: 4 << 20})
	if err != nil {
		r.Fatal(err)
	}
	if out.Signal != 0 {
		out.Code = 128 + int(out.Signal)
	}
	return result{out.Code, trim(out.Stdout), trim(out.Stderr)}
}

func (r *router) path(p string) string { return strings.TrimSuffix(r.root, "/") + p }

func quote(words []string) string { return "'" + strings.Join(words, "' '") + "'" }

// trim takes blank lines and the space around the others away.
func trim(b []byte) string {
	var lines []string
	for l := range strings.Lines(string(b)) {
		if l = strings.TrimSpace(l); l != "" {
			lines = append(lines, l)
		}
	}
	return strings.Join(lines, "\n")
}

func (r *router) api(env []string, args ...string) result {
	r.Helper()
	return r.run(env, "/usr/bin/cli-shell-api", args...)
}

// variable finds what getSessionEnv sets, as VyOS's own ConfigSession does.
var variable = regexp.MustCompile(`([A-Z_]+)=([^;\s]+)`)

// session opens one, which ends with the test, and gives its variables.
func (r *router) session(id string) []string {
	r.Helper()
	env := variable.FindAllString(r.api(nil, "getSessionEnv", id).out, -1)
	if len(env) != 5 {
		r.Fatalf("getSessionEnv: %q", env)
	}
	if got := r.api(env, "setupSession"); got.code != 0 {
		r.Fatalf("setupSession: %+v", got)
	}
	r.Cleanup(func() {
		if _, err := os.Stat(r.root); err == nil { // a test may have closed the system
			r.api(env, "teardownSession")
		}
	})
	return env
}

// clean removes the prefixes of the tests from the running configuration.
func (r *router) clean() {
	r.Helper()
	env := r.session(fmt.Sprintf("vouchclean%d", time.Now().UnixNano()))
	for _, p := range prefixes {
		r.run(env, "/opt/vyatta/sbin/my_delete", "protocols", "static", node(p), p)
	}
	if r.api(env, "sessionChanged").code == 0 {
		if got := r.run(env, "/opt/vyatta/sbin/my_commit"); got.code != 0 {
			r.Errorf("what the tests committed is left: %+v", got)
		}
	}
	r.api(env, "teardownSession")
}

// prefixes are all that the tests commit.
var prefixes = []string{"192.0.2.0/25", "192.0.2.129/32", "2001:db8:77::/48"}

// node is where a prefix belongs.
func node(p string) string {
	if strings.Contains(p, ":") {
		return "route6"
	}
	return "route"
}
