package vyostest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"vouch/routers/command"
	"vouch/routers/vyos/vyostest"
	"vouch/routers/vyos/vyostest/store"
)

// bare is what a commit says of which the reason went elsewhere.
const bare = "[[protocols static]] failed\nCommit failed\n"

// refused has a commit be refused with a reason, in a session that is named after no process.
func (r *router) refused(reason string, want ...string) {
	r.Helper()
	r.system.Fault(vyostest.CommitRefused, 1, reason)
	env := r.session("vouchconfigd")
	r.steps(env, ok("my_set "+black), says("my_commit", 1, want...), ok("teardownSession"))
}

// Of a session that is named after no process the reasons are added to a file, and nowhere else.
func TestConfigdOfNoProcess(t *testing.T) {
	t.Parallel()
	r := standin(t, vyostest.Options{Delay: quick})
	env := r.session("vouchwell")
	r.steps(env, ok("my_set "+black), ok("my_commit"))
	path := r.path(store.Configd)
	if text, err := os.ReadFile(path); err != nil || len(text) > 0 {
		t.Errorf("of a commit that went well: %q, %v", text, err)
	}
	r.steps(env, ok("my_delete protocols static route "+p4), ok("my_commit"))
	for _, reason := range []string{"one", "two"} {
		r.refused(reason, "[[protocols static]] failed", "Commit failed")
	}
	text, err := os.ReadFile(path)
	if err != nil || string(text) != "\none\n\n\ntwo\n\n" {
		t.Errorf("%q, %v", text, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || info.Mode() != 0o644 || st.Uid != 0 || st.Gid != vyostest.Group {
		t.Errorf("%v, %+v", info.Mode(), st)
	}
}

// Of vbash's session the reason goes to where vbash writes, by name: a pipe is lost, and a file is emptied.
func TestConfigdOfProcess(t *testing.T) {
	t.Parallel()
	r := standin(t, vyostest.Options{Delay: quick})
	r.system.Fault(vyostest.CommitRefused, 1, "one")
	r.wants("a pipe", r.vbash("set "+black+"|commit|rc"), result{out: bare + "rc 0\n"})
	files, err := filepath.Glob(r.path("/pipe:*"))
	if err != nil || len(files) != 1 || !regexp.MustCompile(`/pipe:\[\d+\]$`).MatchString(files[0]) {
		t.Fatalf("%v, %v", files, err)
	}
	if text, err := os.ReadFile(files[0]); err != nil || string(text) != "\none\n\n" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := os.Stat(r.path(store.Configd)); err == nil {
		t.Error("there is the file of those that are no process's")
	}
	for _, flag := range []int{0, os.O_APPEND} {
		r.system.Fault(vyostest.CommitRefused, 1, "two")
		got := r.vbashToFile(flag, "set "+black+"|echo said before|commit")
		if strings.Contains(got, "said before") || !strings.HasSuffix(got, bare) {
			t.Errorf("a file: %q", got)
		}
		if whole := "\ntwo\n\n" + bare; flag != 0 && got != whole {
			t.Errorf("a file that is appended to: %q, want %q", got, whole)
		}
	}
	if got := r.vbashToFile(os.O_APPEND, "set "+black+"|echo said before|commit|echo done"); got != "done\n" {
		t.Errorf("of a commit that went well: %q", got)
	}
	r.clean()
}

// vbashToFile runs a script that writes to a file, and gives what is in it then.
func (r *router) vbashToFile(flag int, lines string) string {
	r.Helper()
	f, err := os.OpenFile(filepath.Join(r.TempDir(), "out"), os.O_RDWR|os.O_CREATE|flag, 0o600)
	if err != nil {
		r.Fatal(err)
	}
	defer f.Close()
	l, err := command.StartLasting(command.Spec{Path: r.path("/bin/vbash"), Args: []string{"-s"}, Group: vyostest.Group,
		Stdin: "source " + r.path("/opt/vyatta/etc/functions/script-template") + "\n" + strings.ReplaceAll(lines, "|", "\n") +
			"\n" + r.path("/usr/bin/cli-shell-api") + " teardownSession\n"}, f)
	if err == nil {
		_, err = l.Result()
	}
	if err != nil {
		r.Fatal(err)
	}
	text, err := os.ReadFile(f.Name())
	if err != nil {
		r.Fatal(err)
	}
	return string(text)
}

// What fails by an accident is run once more without vyos-configd, so that it is told; before the boot is done all
// goes to the file; and in 1.5, in 1.3 or without vyos-configd the reason is in what the commit says.
func TestConfigdOtherwise(t *testing.T) {
	t.Parallel()
	r := standin(t, vyostest.Options{Delay: quick})
	r.system.Fault(vyostest.CommitDaemonDown, 1)
	r.steps(r.session("vouchaway"), ok("my_set "+black), says("my_commit", 1, down...))
	r.system.Boot("")
	r.system.Fault(vyostest.CommitRefused, 1, "one")
	r.wants("before the boot is done", r.vbash("set "+black+"|commit|rc"), result{out: bare + "rc 0\n"})
	if text, err := os.ReadFile(r.path(store.Configd)); err != nil || string(text) != "\none\n\n" {
		t.Errorf("before the boot is done: %q, %v", text, err)
	}
	for _, o := range []vyostest.Options{{NoConfigd: true}, {Style: vyostest.RerenderLate}, {Style: vyostest.Incremental}} {
		o.Delay = quick
		s := vyostest.New(t, o)
		sub := *r
		sub.system, sub.root, sub.env = s, s.Root(), s.Env()
		sub.refused("two", "[ protocols static ]", "two", "", "[[protocols static]] failed", "Commit failed")
		if _, err := os.Stat(s.Path(store.Configd)); err == nil {
			t.Errorf("%+v: there is the file", o)
		}
	}
}
