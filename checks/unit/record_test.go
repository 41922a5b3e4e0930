package unit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vouch/checks"
	"vouch/checks/checktest"
)

// records gives what a release of systemd said of units, by the state that each was in.
func records(tb testing.TB, path string) map[string]checktest.Unit {
	tb.Helper()
	text, err := os.ReadFile(path)
	must(tb, err)
	all := map[string]checktest.Unit{}
	for _, block := range strings.Split(string(text), "\n== ")[1:] {
		name, rest, _ := strings.Cut(block, "\n")
		all[name] = checktest.ParseUnit(rest)
	}
	return all
}

// What real releases of systemd say of units in every state there is, and how it is judged.
func TestRecords(t *testing.T) {
	files, err := filepath.Glob("testdata/systemd-*.txt")
	must(t, err)
	if len(files) != 2 {
		t.Fatalf("records: %v", files)
	}
	want := map[string]string{
		"running":            "",
		"alias":              "",
		"reloading":          "",
		"loop-running":       "",
		"restarted-by-hand":  "",
		"socket":             "",
		"auto-restart":       "unusable: is activating (auto-restart); last: exit-code, status 3",
		"loop-waiting":       "unusable: is activating (auto-restart); last: signal, SIGSEGV",
		"failed":             "unusable: has failed; last: exit-code, status 1",
		"start-limit":        "unusable: has failed after 5 restarts; last: exit-code, status 1",
		"start-limit-clean":  "unusable: has failed too often to be started again (systemctl reset-failed t-clean.service)",
		"watchdog":           "unusable: has failed; last: watchdog, SIGABRT",
		"killed":             "unusable: has failed; last: signal, SIGKILL",
		"oneshot":            "unusable: is active (exited): it has done its work and nothing runs; exited_ok = true accepts that",
		"removed-active":     "unusable: is active (exited): it has done its work and nothing runs; exited_ok = true accepts that",
		"simple-exited":      "unusable: is active (exited): its process has ended",
		"oneshot-activating": "unusable: is activating (start)",
		"notify-activating":  "unusable: is activating (start)",
		"removed-activating": "unusable: is activating (start)",
		"deactivating":       "unusable: is deactivating (stop-sigterm)",
		"inactive":           "unusable: is inactive (dead)",
		"bad-setting":        "unusable: cannot be loaded: bad-setting (systemctl status t-bad.service)",
		"masked":             "unusable: is masked (systemctl unmask t-masked.service)",
		"not-found":          "absent: there is no unit t-none.service (systemctl daemon-reload, if it is new)",
	}
	for _, file := range files {
		s := checktest.NewSystemd(t)
		all := records(t, file)
		if len(all) != len(want) {
			t.Errorf("%s: %d records, want %d", file, len(all), len(want))
		}
		for name, u := range all {
			s.Set(u)
			text, ok := want[name]
			c := on(t, s.Socket, Spec{Unit: u["Id"]})
			c.bus.uptime = func() time.Duration { return 1000 * time.Hour } // longer than where it was recorded
			if got := reason(check(t, c)); got != text || !ok {
				t.Errorf("%s: %s: %q, want %q", file, name, got, text)
			}
			if !isService(u["Id"]) {
				continue
			}
			accepted := text == "" || name == "oneshot" || name == "removed-active"
			if r := check(t, on(t, s.Socket, Spec{Unit: u["Id"], ExitedOK: true})); (r.Status() == checks.OK) != accepted {
				t.Errorf("%s: %s with exited_ok: %v", file, name, r.Err)
			}
		}
		s.StopBus()
	}
}

func reason(r checks.Result) string {
	if r.Err == nil {
		return ""
	}
	return r.Err.Error()
}
