package vyostest_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"vouch/routers/vyos/vyostest"
)

// whole says what a commit of a session would do beside what the tests want, in which case it must not be made:
// without its mount it would erase the router's configuration.
func (r *router) whole(env []string) error {
	r.Helper()
	work := ""
	for _, v := range env {
		if dir, ok := strings.CutPrefix(v, "VYATTA_TEMP_CONFIG_DIR="); ok {
			work = dir
		}
	}
	if _, err := os.Stat(work); err != nil {
		return nil // and so no session, and no commit
	}
	mounted, err := r.mounted(work)
	if err != nil {
		return err
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

func (r *router) mounted(work string) (bool, error) {
	mounts, err := os.ReadFile(r.path("/proc/self/mounts"))
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 2 && f[1] == work && strings.HasPrefix(f[2], "fuse") {
			return true, err
		}
	}
	return false, err
}

// ours says whether a line of the difference is about the prefixes of the tests and nothing else.
func (r *router) ours(line []string) bool {
	r.Helper()
	path := line[1:]
	if len(path) > 3 {
		return path[0] == "protocols" && path[1] == "static" && slices.Contains(prefixes, path[3])
	}
	return line[0] == "delete" && r.only(path...)
}

// only says whether the running configuration has nothing at a node but the prefixes of the tests: the last one was
// deleted, so that it goes too.
func (r *router) only(path ...string) bool {
	r.Helper()
	names := [][]string{{"protocols"}, {"static"}, {"route", "route6"}, prefixes}
	if len(path) == len(names) {
		return true
	}
	for _, c := range strings.Fields(r.api(nil, append([]string{"listActiveNodes"}, path...)...).out) {
		if c = strings.Trim(c, "'"); !slices.Contains(names[len(path)], c) || !r.only(append(slices.Clone(path), c)...) {
			return false
		}
	}
	return true
}

// The exit statuses of a script of ours that would have committed what is not ours.
const (
	notMounted = 99
	notOurs    = 98
)

// guard stands before each commit of a script.
func (r *router) guard() string {
	api := r.path("/usr/bin/cli-shell-api ") + showDiff
	return strings.Join([]string{`if [ -d "$VYATTA_TEMP_CONFIG_DIR" ]; then`,
		`grep -q " $VYATTA_TEMP_CONFIG_DIR fuse" ` + r.path("/proc/self/mounts") + " || builtin exit " + strconv.Itoa(notMounted),
		"ours=$(" + api + ") || builtin exit " + strconv.Itoa(notOurs),
		`[ -z "$ours" ] || ! grep -qvE "^(set|delete) 'protocols' 'static' 'route6?' '(` + strings.Join(prefixes, "|") + `)'( |$)" <<<"$ours" || builtin exit ` + strconv.Itoa(notOurs),
		"fi"}, "\n")
}

// kinds begin the names of the directories of a session; the mount is at the first.
var kinds = []string{"new_config_", "changes_only_", "tmp_"}

func (r *router) dir(kind, id string) string { return r.path("/opt/vyatta/config/tmp/" + kind + id) }

// left says whether there is anything of a session.
func (r *router) left(id string) bool {
	for _, k := range kinds {
		if _, err := os.Lstat(r.dir(k, id)); err == nil {
			return true
		}
	}
	return false
}

// processes gives those that are in a session, such as the one that is its mount.
func (r *router) processes(id string) []string {
	var all []string
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		if env, _ := os.ReadFile(f); bytes.Contains(env, []byte("VYATTA_TEMP_CONFIG_DIR="+r.dir(kinds[0], id)+"\x00")) {
			all = append(all, filepath.Base(filepath.Dir(f)))
		}
	}
	return all
}

// sweep ends all sessions that a row has made, whatever became of it. One that is named after a process which lives is
// another's by now.
func (r *router) sweep() {
	r.Helper()
	for _, id := range *r.made {
		if _, err := os.Stat("/proc/" + id); err == nil || !r.left(id) {
			continue
		}
		r.api(r.variables(id), "teardownSession")
		if mounted, err := r.mounted(r.dir(kinds[0], id)); r.system == nil && r.left(id) && err == nil {
			if mounted { // its process was killed
				err = syscall.Unmount(r.dir(kinds[0], id), 2) // MNT_DETACH
			}
			for _, k := range kinds {
				if err == nil {
					err = os.RemoveAll(r.dir(k, id))
				}
			}
		}
		if all := r.processes(id); r.left(id) || len(all) > 0 {
			r.Errorf("of session %s there is something left, in %s*, and the processes %v: end it by hand", id, r.dir("", ""), all)
		}
	}
	*r.made = nil
}

// sweepOlder ends what a run left that was killed. The names are nobody else's.
func (r *router) sweepOlder() {
	r.Helper()
	for _, k := range kinds {
		dirs, _ := filepath.Glob(r.dir(k, ownPrefix+"*"))
		for _, d := range dirs {
			*r.made = append(*r.made, strings.TrimPrefix(filepath.Base(d), k))
		}
	}
	r.sweep()
}

// A state is what a run of the contract has to leave as it was.
type state struct {
	active   string
	sessions []string
}

// active is the running configuration, as commands.
func (r *router) active() string {
	r.Helper()
	return r.api(nil, "--show-active-only", "--show-commands", "showConfig").out
}

func (r *router) state() (s state) {
	r.Helper()
	s.active = r.active()
	dirs, _ := filepath.Glob(r.dir("", "*"))
	for _, d := range dirs {
		s.sessions = append(s.sessions, filepath.Base(d))
	}
	return s
}

// contract opens a router and sees to it that the test leaves it as it was. On the stand-in somebody else edits
// meanwhile; on a router others may come and go.
func contract(t *testing.T, o vyostest.Options) *router {
	t.Helper()
	if !real() {
		t.Parallel()
	}
	r := open(t, o)
	if r.system != nil {
		r.system.Left("4711", "set "+black)
	}
	r.sweepOlder()
	for _, path := range [][]string{{"protocols", "static"}, {"protocols"}} {
		if r.api(nil, append([]string{"existsActive"}, path...)...).code != 0 {
			r.absent = append(r.absent, path)
		}
	}
	before := r.state()
	r.before = &before
	t.Cleanup(func() {
		r.sweep()
		after := r.state()
		if after.active != before.active {
			t.Errorf("the running configuration was\n%s\nand is\n%s", before.active, after.active)
		}
		if r.system != nil && (!slices.Equal(after.sessions, before.sessions) || !slices.Equal(r.system.Mounted(), []string{"4711"})) {
			t.Errorf("there was %v, and is %v, mounted %v", before.sessions, after.sessions, r.system.Mounted())
		}
	})
	return r
}

// On a router the tests commit nothing but their own.
func TestContractIsHarmless(t *testing.T) {
	r := standin(t, vyostest.Options{Delay: quick})
	env := r.session("vouchwhole")
	r.steps(env, ok("my_set "+black))
	if err := r.whole(env); err != nil {
		t.Error(err)
	}
	r.steps(env, ok("my_set protocols static route 198.51.100.0/24 blackhole"))
	if err := r.whole(env); err == nil {
		t.Error("another's prefix would be committed")
	}
	r.steps(env, ok("my_commit"), ok("my_delete protocols static route"))
	if err := r.whole(env); err == nil {
		t.Error("all routes would be deleted")
	}
	r.steps(env, says("my_discard", 0, "Changes have been discarded"), ok("my_delete protocols static route 198.51.100.0/24"), ok("my_commit"),
		ok("my_delete protocols static route "+p4), says(showDiff, 0, "delete 'protocols' 'static' 'route'"))
	if err := r.whole(env); err != nil {
		t.Error(err)
	}
	r.system.Fault(vyostest.MountMissing, 1)
	env = r.session("vouchmissing")
	if err := r.whole(env); err == nil || !strings.HasSuffix(err.Error(), "is not mounted") {
		t.Errorf("without a mount: %v", err)
	}
	before := r.system.Active()
	for _, c := range []struct {
		fault, lines string
		code         int
	}{
		{vyostest.MountMissing, "set " + black, notMounted},
		{vyostest.FuseDies, "set " + black, notMounted},
		{vyostest.Noisy, "set " + black + "|set protocols static route 198.51.100.0/24 blackhole", notOurs},
		{vyostest.Noisy, "delete protocols bgp", notOurs},
	} {
		r.system.Fault(c.fault, 1)
		if got := r.vbash(c.lines + "|commit"); got.code != c.code || !slices.Equal(r.system.Active(), before) {
			t.Errorf("%s: %s: %+v, and there is %v", c.fault, c.lines, got, r.system.Active())
		}
	}
}

// A row ends its sessions, and what is left of one that was killed is swept away; others' stay as they are.
func TestContractEndsItsSessions(t *testing.T) {
	r := standin(t, vyostest.Options{Delay: quick})
	r.system.Left("4711", "set "+black)
	row := func(f func(r *router)) (made []string) {
		sub := *r
		sub.made = new([]string)
		f(&sub)
		made = *sub.made
		sub.sweep()
		if got := r.system.Sessions(); !slices.Equal(got, []string{"4711"}) || !slices.Equal(r.system.Mounted(), got) {
			t.Errorf("after the sweep there is %v", got)
		}
		return made
	}
	row(func(r *router) {
		r.vbash("set " + black + "|rc")
		r.vbash("-c set " + black + "; comit")
		r.vbash("set " + black + "|builtin exit 3")
		if got := r.system.Sessions(); len(got) > 1 {
			t.Errorf("a script left %v", got)
		}
	})
	killed := row(func(r *router) {
		if got := r.vbash("set " + black + "|kill -KILL $$"); got.code != 128+int(syscall.SIGKILL) || len(r.system.Sessions()) != 2 {
			t.Errorf("%+v, and there is %v", got, r.system.Sessions())
		}
	})
	if _, err := strconv.Atoi(strings.Join(killed, "")); err != nil {
		t.Errorf("the script made %v", killed)
	}
	row(func(r *router) { r.steps(r.session(own("row")), ok("my_set "+black)) })
	r.steps(r.system.Session("4711"), ok("sessionChanged"))
	r.system.Left(ownPrefix+"older-1", "set "+black)
	r.sweepOlder()
	if got := r.system.Sessions(); !slices.Equal(got, []string{"4711"}) {
		t.Errorf("of an older run there is %v", got)
	}
	if err := os.MkdirAll(r.dir(kinds[1], "4712"), 0o755); err != nil || !r.left("4712") {
		t.Errorf("a part of a session is not seen: %v", err)
	}
}
