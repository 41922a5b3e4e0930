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

// real says whether the tests run on a router, which somebody has to ask for. There is no go there:
//
//	go test -c ./routers/vyos/vyostest          # then copy vyostest.test to the router
//	VYOS_ROOT=/ ./vyostest.test -test.run TestContract    # as root
//
// It commits the prefixes below and takes them back, saves nothing, and leaves out what needs a fault.
func real() bool { return os.Getenv("VYOS_ROOT") == "/" }

// open gives the router that the environment names, and otherwise a stand-in over a real FRR.
func open(t testing.TB, o vyostest.Options) *router {
	t.Helper()
	if root := os.Getenv("VYOS_ROOT"); root != "" {
		if !real() {
			t.Fatalf("VYOS_ROOT is %q: only / is a router; without it the stand-in is tested", root)
		}
		r := &router{TB: t, root: "/", env: vyostest.RealEnv()}
		for _, p := range prefixes {
			if r.api(nil, "existsActive", "protocols", "static", node(p), p).code == 0 {
				t.Fatalf("this router has %s: not tested, as it would be deleted; if a test left it, delete it by hand", p)
			}
		}
		return r
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
	if r.system == nil && strings.HasSuffix(path, "/my_commit") {
		if err := r.whole(env); err != nil {
			r.Fatalf("not committed on a real router: %v", err)
		}
	}
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

// whole says what a commit of a session would do beside what the tests want, in which case it must not be made:
// without its mount it would erase the router's configuration.
func (r *router) whole(env []string) error {
	r.Helper()
	work, mounted := "", false
	for _, v := range env {
		if dir, ok := strings.CutPrefix(v, "VYATTA_TEMP_CONFIG_DIR="); ok {
			work = dir
		}
	}
	if _, err := os.Stat(work); err != nil {
		return nil // and so no session, and no commit
	}
	mounts, err := os.ReadFile(r.path("/proc/self/mounts"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		mounted = mounted || len(f) > 2 && f[1] == work && strings.HasPrefix(f[2], "fuse")
	}
	if !mounted {
		return fmt.Errorf("%s is not mounted", work)
	}
	for line := range strings.Lines(r.api(env, strings.Fields(showDiff)...).out) {
		if !r.ours(strings.Fields(strings.ReplaceAll(line, "'", ""))) {
			return fmt.Errorf("it would %s", line)
		}
	}
	return nil
}

// ours says whether a line of the difference is about the prefixes of the tests and nothing else.
func (r *router) ours(line []string) bool {
	r.Helper()
	switch {
	case len(line) < 4 || line[1] != "protocols" || line[2] != "static":
		return false
	case len(line) > 4:
		return slices.Contains(prefixes, line[4])
	}
	var others []string // the last one was deleted, so that its node goes
	for _, p := range strings.Fields(r.api(nil, "listActiveNodes", "protocols", "static", line[3]).out) {
		if p = strings.Trim(p, "'"); !slices.Contains(prefixes, p) {
			others = append(others, p)
		}
	}
	return len(others) == 0
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
