package agent

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/bird/ctl"
	"vouch/routers/bird/include"
)

// directories plays a unit with both directories, and gives them.
func directories(t *testing.T) (runtime, state string) {
	t.Helper()
	runtime, state = t.TempDir(), t.TempDir()
	t.Setenv(runtimeDirectory, runtime)
	t.Setenv(stateDirectory, state)
	return runtime, state
}

// A configuration that is not valid at boot leaves nothing on in vouch's files; later in the same boot, and in
// anybody else's file, nothing is changed.
func TestRefusedAtBoot(t *testing.T) {
	runtime, dir := directories(t)
	entry := include.Entry{Prefix: netip.MustParsePrefix("192.0.2.53/32"), Want: routers.Announced, Symbol: "RESOLVER_OFF"}
	on := include.Render(include.Format{Style: include.Switch, Version: ctl.Version{Major: 2, Minor: 17, Patch: 6}}, []include.Entry{entry})
	ours, others, broken := filepath.Join(dir, "vouch.conf"), filepath.Join(dir, "notes.txt"), filepath.Join(dir, "cut.conf")
	must(t, os.WriteFile(ours, on, 0o640))
	must(t, os.WriteFile(others, []byte("define RESOLVER_OFF = 0;\n"), 0o644))
	must(t, os.WriteFile(broken, on[:len(on)/2], 0o644))
	must(t, os.Mkdir(filepath.Join(dir, "directory"), 0o755))

	noteStarted()
	if told := refused(); told != nil || readFile(t, ours) != string(on) {
		t.Errorf("after an agent has run in this boot: %q", told)
	}
	must(t, os.Remove(filepath.Join(runtime, startedFile)))
	told := refused()
	if len(told) != 2 || !strings.HasPrefix(told[0], broken+" may announce what nobody has checked") || !strings.Contains(told[1], ours+": nothing was checked") {
		t.Errorf("told %q", told)
	}
	if text := readFile(t, ours); !strings.Contains(text, "define RESOLVER_OFF = 1;") {
		t.Errorf("the file holds\n%s", text)
	}
	if st, err := os.Stat(ours); err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("its mode became %v, %v", st.Mode(), err)
	}
	if text := readFile(t, others); text != "define RESOLVER_OFF = 0;\n" {
		t.Errorf("another's file became\n%s", text)
	}
	if told := refused(); len(told) != 1 {
		t.Errorf("the second time: %q", told)
	}
	t.Setenv(stateDirectory, "")
	must(t, os.WriteFile(ours, on, 0o640))
	if told := refused(); told != nil || readFile(t, ours) != string(on) {
		t.Errorf("without a unit: %q", told)
	}
}

// An agent that is replaced keeps what is announced; a mark that was left behind long ago counts no more.
func TestReplaced(t *testing.T) {
	runtime, _ := directories(t)
	mark := filepath.Join(runtime, replacedFile)
	if replaced() {
		t.Error("nobody said so")
	}
	for age, want := range map[time.Duration]bool{0: true, 2 * replacedMax: false} {
		must(t, os.WriteFile(mark, nil, 0o644))
		at := time.Now().Add(-age)
		must(t, os.Chtimes(mark, at, at))
		if got := replaced(); got != want {
			t.Errorf("marked %s ago: %t", age, got)
		}
		if _, err := os.Lstat(mark); err == nil {
			t.Errorf("marked %s ago: the mark is still there", age)
		}
	}
}
