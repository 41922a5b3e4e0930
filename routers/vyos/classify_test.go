package vyos

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"vouch/routers"
	"vouch/routers/command"
)

const at = "protocols static route 192.0.2.53/32 blackhole"

// Every row of what was seen of VyOS 1.3 and 1.4, or read of 1.5.
func TestClassify(t *testing.T) {
	for _, c := range []struct {
		name   string
		code   int
		text   string
		want   verdict
		reason string
	}{
		{"set, new", 0, "", done, ""},
		{"set, exists", 0, "Configuration path: [" + at + "] already exists\n", unchanged, ""},
		{"set, bad path", 1, "Configuration path: [protocols static rout3] is not valid\nSet failed\n", refusal, "Configuration path: [protocols static rout3] is not valid"},
		{"set, bad value", 1, "Error: X is not a valid IPv4 prefix\n\n\nInvalid value\nValue validation failed\nSet failed\n", refusal, "Error: X is not a valid IPv4 prefix; Invalid value; Value validation failed"},
		{"set, no value", 1, "Configuration path: [protocols static route] requires a value\nSet failed\n", refusal, "Configuration path: [protocols static route] requires a value"},
		{"set, bare", 1, "Set failed\n", retry, ""},
		{"delete, bare", 1, "\nDelete failed\n\n", retry, ""},
		{"delete, absent", 0, "Nothing to delete (the specified node does not exist)\n", unchanged, ""},
		{"delete, absent value", 0, "Nothing to delete (the specified value does not exist)\n", unchanged, ""},
		{"delete, bad path", 1, "Configuration path: [protocols x] is not valid\nDelete failed\n", refusal, "Configuration path: [protocols x] is not valid"},
		{"commit", 0, "", done, ""},
		{"commit with a warning", 0, "Warning: the last Commit failed\nsudo: unable to resolve host vyos\n", done, ""},
		{"commit with noise", 0, "\xff\xfe\x00", done, ""},
		{"commit, nothing", 0, "No configuration changes to commit\n", unchanged, ""},
		{"commit, nothing, vbash", 1, "\n  No configuration changes to commit\n\n", unchanged, ""},
		{"commit, nothing, vyconf", 0, "No changes to commit\n", unchanged, ""},
		{"commit, locked", 1, "Configuration system temporarily locked due to another commit in progress\n", busy, ""},
		{"commit, locked, vyconf", 1, "Configuration system locked by another commit in progress\n", busy, ""},
		{"commit, refused", 1, "[ protocols static ]\nMust add either a next-hop or blackhole\n\n[[protocols static]] failed\nCommit failed\n", refusal, "Must add either a next-hop or blackhole"},
		{"commit, refused without reason", 1, "[[protocols static]] failed\nCommit failed\n", refusal, "VyOS refused the commit and gave no reason: [[protocols static]] failed"},
		{"commit, delete part", 1, "delete [ protocols static ] failed\nCommit failed\n", refusal, "VyOS refused the commit and gave no reason: delete [ protocols static ] failed"},
		{"commit, no sudo", 1, "[ protocols static ]\nsudo: a terminal is required to read the password\nsudo: a password is required\n\n[[protocols static]] failed\nCommit failed\n", denied, "sudo: a terminal is required to read the password; sudo: a password is required"},
		{"commit, daemon down", 1, "[ protocols static ]\nVyOS had an issue completing a command.\nTraceback (most recent call last):\nfailed to connect to any daemons\n\n[[protocols static]] failed\nCommit failed\n", failed, "VyOS had an issue completing a command.; Traceback (most recent call last):; failed to connect to any daemons"},
		{"commit, internal", 1, "Failed to generate committed config\n", failed, "Failed to generate committed config"},
		{"commit, left over", 1, "failed to remove temp directories\n", failed, "failed to remove temp directories"},
		{"no session, direct", 139, "", lost, "the configuration session is gone"},
		{"no session, vbash", 1, "DEBUG vexit_internal: calling validateTmplPath() without config session\n", lost, "DEBUG vexit_internal: calling validateTmplPath() without config session"},
		{"no session at all", 1, "Failed to set up config session\n", lost, "Failed to set up config session"},
		{"unknown", 1, "Something new\n", failed, "Something new"},
		{"silent", 1, "", failed, ""},
		{"discard", 0, "Changes have been discarded\n", done, ""},
	} {
		if got := classify(command.Output{Code: c.code, Stdout: []byte(c.text)}); got != (outcome{c.want, c.reason}) {
			t.Errorf("%s: %+v, want %d %q", c.name, got, c.want, c.reason)
		}
	}
	for signal, want := range map[syscall.Signal]verdict{syscall.SIGSEGV: lost, syscall.SIGKILL: failed} {
		if got := classify(command.Output{Code: -1, Signal: signal}); got.verdict != want {
			t.Errorf("%s: %+v", signal, got)
		}
	}
}

// A script ends with 0 whatever happened.
func TestClassifyScript(t *testing.T) {
	for text, want := range map[string]verdict{
		"": done,
		"\n  Configuration path: [" + at + "] already exists\n\n":                           done,
		"\n  Nothing to delete (the specified node does not exist)\n\n":                     done,
		"\n  Warning: something else\n\n":                                                   done,
		"\n  Set failed\n\n":                                                                retry,
		"\n  Configuration path: protocols static [rout3] is not valid\n\n  Set failed\n\n": refusal,
		"\n  Configuration path: [p] is ambiguous\n\n  Set failed\n\n":                      refusal,
		"\n  Configuration system temporarily locked due to another commit in progress\n\n": busy,
		"\n  [[protocols static]] failed\n  Commit failed\n\n":                              refusal,
		"\n  delete [ protocols static ] failed\n  Commit failed\n\n":                       refusal,
		"DEBUG vexit_internal: calling x() without config session\n":                        lost,
		"\n  Invalid command: [comit]\n\n":                                                  refusal,
		"\n  Failed to generate committed config\n\n":                                       failed,
	} {
		if got := classifyScript(command.Output{Stdout: []byte(text)}); got.verdict != want {
			t.Errorf("%q: %+v, want %d", text, got, want)
		}
	}
}

func TestOutcomeErrors(t *testing.T) {
	for v, class := range map[verdict]error{busy: routers.ErrBusy, retry: routers.ErrUnavailable, refusal: routers.ErrRefused, denied: routers.ErrRefused, failed: routers.ErrUnavailable, lost: routers.ErrUnavailable} {
		if err := (outcome{v, "why"}).err("commit"); !errors.Is(err, class) || !strings.HasPrefix(err.Error(), "commit: ") {
			t.Errorf("%d: %v", v, err)
		}
	}
	for _, v := range []verdict{done, unchanged} {
		if err := (outcome{verdict: v}).err("commit"); err != nil {
			t.Error(err)
		}
	}
}

func TestReasonIsShort(t *testing.T) {
	got := reason(strings.Repeat("words ", 10000) + "\nthe last ones\nCommit failed\n")
	if len(got) > longest+10 || !strings.HasSuffix(got, "the last ones") || strings.Contains(got, "\n") {
		t.Errorf("%q", got)
	}
}
