package vyostest_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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

// quick is how long a commit of the stand-in takes where nothing has to come in between.
const quick = 20 * time.Millisecond

// A result is what one program left.
type result struct {
	code     int
	out, err string
}

// anything stands for a text that is not compared.
const anything = "…"

// A router is VyOS, a real one or the stand-in.
type router struct {
	testing.TB
	root   string
	env    []string
	system *vyostest.System // nil: a real one
	node   *lab.Node
	frr    *lab.FRR
	made   *[]string  // the sessions that a row has made
	absent [][]string // the nodes above the prefixes that were not there, lowest first
	before *state     // nil: it is nobody's
}

// real says whether the tests run on a router, which somebody has to ask for. There is no go there:
//
//	go test -c ./routers/vyos/vyostest          # then copy vyostest.test to the router
//	VYOS_ROOT=/ ./vyostest.test -test.run TestContract    # as root
//
// What a run does there: it commits the prefixes below, fewer than twenty times, and takes them back; each of these
// commits is a revision in the archive (and goes to commit-archive, and to the hooks), in the routing of the router for
// a moment, and known to those in configuration mode. A commit is made only in a session that is mounted, of which the
// difference is those prefixes and nothing else. It holds the lock of commits for some seconds in all. It never saves
// over config.boot, but to a file in /tmp, which it removes. Every session that it opens ends with its row,
// whatever became of that; those of others, and their edits, are not touched. What needs a fault is left out, and so
// is the comparison of indents and blank lines, as these differ by release.
func real() bool { return os.Getenv("VYOS_ROOT") == "/" }

// unfit says why nothing can be tested by what VYOS_ROOT names; empty: it can. The system is below root.
func unfit(named, root string, uid int) string {
	if named == "" {
		return ""
	}
	if named != "/" {
		return fmt.Sprintf("VYOS_ROOT is %q: only / is a router; without it the stand-in is tested", named)
	}
	for _, file := range []string{"usr/bin/cli-shell-api", "opt/vyatta/sbin/my_commit", "opt/vyatta/config/active", "usr/bin/sg"} {
		if _, err := os.Stat(filepath.Join(root, file)); errors.Is(err, fs.ErrNotExist) {
			return fmt.Sprintf("VYOS_ROOT is /, but this is no VyOS, as there is no /%s: run it on a router, or without VYOS_ROOT to test the stand-in", file)
		}
	}
	if uid != 0 {
		return fmt.Sprintf("VYOS_ROOT is /, and this is user %d: run it as root, such as by sudo -E", uid)
	}
	return ""
}

func TestUnfit(t *testing.T) {
	router := t.TempDir()
	for _, file := range []string{"usr/bin/cli-shell-api", "opt/vyatta/sbin/my_commit", "opt/vyatta/config/active/x", "usr/bin/sg"} {
		if err := errors.Join(os.MkdirAll(filepath.Join(router, filepath.Dir(file)), 0o755), os.WriteFile(filepath.Join(router, file), nil, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		named, root string
		uid         int
		want        string
	}{
		{"", router, 1000, ""},
		{"/", router, 0, ""},
		{"/", router, 1000, "run it as root"},
		{"/", t.TempDir(), 0, "this is no VyOS"},
		{"/", t.TempDir(), 1000, "this is no VyOS"},
		{"/srv", router, 0, `VYOS_ROOT is "/srv"`},
	} {
		if got := unfit(c.named, c.root, c.uid); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%q, user %d: %q, want %q", c.named, c.uid, got, c.want)
		}
	}
}

// open gives the router that the environment names, and otherwise a stand-in over a real FRR.
func open(t testing.TB, o vyostest.Options) *router {
	t.Helper()
	if real() {
		r := &router{TB: t, root: "/", env: vyostest.RealEnv(), made: new([]string)}
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
	return &router{TB: t, root: s.Root(), env: s.Env(), system: s, node: node, frr: frr, made: new([]string)}
}

// run runs a program of the system with more variables, in the group that it needs.
func (r *router) run(env []string, path string, args ...string) result {
	r.Helper()
	if r.system == nil && strings.HasSuffix(path, "/my_commit") {
		if err := r.whole(env); err != nil {
			r.Fatalf("not committed on a real router: %v", err)
		}
	}
	line := "umask 0002; exec " + quote(append([]string{r.path(path)}, args...))
	return r.command(command.Spec{Path: r.path("/usr/bin/sg"), Args: []string{"vyattacfg", "-c", line},
		Env: slices.Concat(r.env, env), MaxOutput: 4 << 20})
}

// command runs anything.
func (r *router) command(spec command.Spec) result {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 3*time.Minute)
	defer cancel()
	out, err := command.Run(ctx, spec)
	if err != nil {
		r.Fatal(err)
	}
	if out.Signal != 0 {
		out.Code = 128 + int(out.Signal)
	}
	return result{out.Code, string(out.Stdout), string(out.Stderr)}
}

// is says whether a text is what is wanted: to the last blank on the stand-in, and on a router as far as releases
// agree.
func (r *router) is(got, want string) bool {
	if r.system == nil {
		got, want = trim(got), trim(want)
	}
	return got == want || want == anything
}

// wants compares all that a program left.
func (r *router) wants(what string, got, want result) {
	r.Helper()
	if got.code != want.code || !r.is(got.out, want.out) || !r.is(got.err, want.err) {
		r.Errorf("%s:\n got %d, stdout %.999q, stderr %.999q\nwant %d, stdout %q, stderr %q",
			what, got.code, got.out, got.err, want.code, want.out, want.err)
	}
}

func (r *router) path(p string) string { return strings.TrimSuffix(r.root, "/") + p }

func quote(words []string) string { return "'" + strings.Join(words, "' '") + "'" }

// trim takes blank lines and the space around the others away.
func trim(text string) string {
	var lines []string
	for l := range strings.Lines(text) {
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

// variables gives those of a session, which need not be there.
func (r *router) variables(id string) []string {
	r.Helper()
	env := variable.FindAllString(r.api(nil, "getSessionEnv", id).out, -1)
	if len(env) != 5 {
		r.Fatalf("getSessionEnv: %q", env)
	}
	return env
}

// session opens one, which ends with the test, and gives its variables.
func (r *router) session(id string) []string {
	r.Helper()
	*r.made = append(*r.made, id)
	env := r.variables(id)
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

// own names a session so that it is nobody else's, nor that of a process.
func own(name string) string { return fmt.Sprintf("%s%s-%d", ownPrefix, name, os.Getpid()) }

const ownPrefix = "vouchtest-"

// clean removes the prefixes of the tests from the running configuration, where that is not what it was.
func (r *router) clean() {
	r.Helper()
	if r.before != nil && r.active() == r.before.active {
		return
	}
	env := r.session(own("clean"))
	for _, p := range prefixes {
		r.run(env, "/opt/vyatta/sbin/my_delete", "protocols", "static", node(p), p)
	}
	for _, path := range r.absent {
		if r.only(path...) { // VyOS leaves them there, empty
			r.run(env, "/opt/vyatta/sbin/my_delete", path...)
		}
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
