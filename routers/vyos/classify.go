package vyos

import (
	"regexp"
	"strings"
	"syscall"

	"vouch/routers/command"
)

// A verdict is what became of one step of a session.
type verdict uint8

const (
	done      verdict = iota
	unchanged         // it was so already
	busy              // another commit has the lock
	retry             // a set or delete failed without a word: somebody commits, or the configuration cannot be written
	refusal           // VyOS says no, and will again
	denied            // this process may not
	failed            // VyOS could not
	lost              // the session is gone
)

// An outcome is a verdict, and what VyOS said.
type outcome struct {
	verdict verdict
	reason  string // on one line; empty: nothing that would help
}

// crash is the exit status that a shell makes of a death by SIGSEGV.
const crash = 128 + int(syscall.SIGSEGV)

// The texts of VyOS 1.2 to 1.5; vyatta-cfg cstore.cpp and commit-algorithm.cpp, and those of the vyconf backend.
var (
	sayBusy      = regexp.MustCompile(`locked (due to|by) another commit`)
	sayNothing   = regexp.MustCompile(`No configuration changes to commit|No changes to commit|already exists|Nothing to delete`)
	sayInvalid   = regexp.MustCompile(`is not valid|is ambiguous|requires a value|Invalid value|Value validation failed|Invalid command|is not a valid`)
	sayDenied    = regexp.MustCompile(`sudo: (a password is required|a terminal is required)|Operation not permitted|Permission denied`)
	sayLost      = regexp.MustCompile(`without config session|Failed to set up config session`)
	sayBroken    = regexp.MustCompile(`Traceback|failed to connect to any daemons|Failed to generate|failed to remove temp|Could not`)
	sayRefused   = regexp.MustCompile(`(?m)^\s*(delete )?(\[\[.*\]\]|\[ .* \]) failed\s*$`)
	sayFailed    = regexp.MustCompile(`(?m)^\s*(Set|Delete|Commit|Discard) failed\s*$`)
	sayAnyFailed = regexp.MustCompile(`(Set|Delete|Commit|Discard) failed|\] failed\s*(\n|$)|is not valid|is ambiguous|requires a value|` +
		`Invalid command|locked (due to|by) another commit|Failed to |without config session|Could not|Traceback`)
)

// classify judges my_set, my_delete, my_commit or my_discard by its exit status; only of what failed the text
// says how. Warnings of a commit that went well may say anything.
func classify(out command.Output) outcome {
	text := text(out)
	switch {
	case out.Signal == syscall.SIGSEGV, out.Code == crash:
		return outcome{lost, "the configuration session is gone"}
	case out.Signal != 0:
		return outcome{failed, "killed by signal " + out.Signal.String()}
	case out.Code == 0 && sayNothing.MatchString(text):
		return outcome{verdict: unchanged}
	case out.Code == 0:
		return outcome{verdict: done}
	}
	return failure(text)
}

// classifyScript judges a whole script of vbash, where an exit status says nothing: it is well unless the text
// says otherwise, and then only if what it was to do is so afterwards.
func classifyScript(out command.Output) outcome {
	text := text(out)
	switch {
	case out.Signal != 0, out.Code == crash:
		return outcome{failed, "vbash was killed: " + reason(text)}
	case sayAnyFailed.MatchString(text):
		return failure(text)
	}
	return outcome{verdict: done}
}

// failure says how something failed.
func failure(text string) outcome {
	why := reason(text)
	switch {
	case sayBusy.MatchString(text):
		return outcome{busy, ""}
	case sayNothing.MatchString(text) && !sayFailed.MatchString(text):
		return outcome{verdict: unchanged}
	case sayDenied.MatchString(text):
		return outcome{denied, why}
	case sayLost.MatchString(text):
		return outcome{lost, why}
	case sayBroken.MatchString(text):
		return outcome{failed, why}
	case sayInvalid.MatchString(text), sayRefused.MatchString(text):
		return outcome{refusal, why}
	case strings.TrimSpace(text) == "Set failed", strings.TrimSpace(text) == "Delete failed":
		return outcome{verdict: retry}
	}
	return outcome{failed, why}
}

// text is all that a program said.
func text(out command.Output) string {
	return strings.ToValidUTF8(string(out.Stdout)+"\n"+string(out.Stderr), "?")
}

// longest bounds a reason, in bytes.
const longest = 400

// mute begins the reason of what was refused without one.
const mute = "VyOS refused the commit and gave no reason"

// reason puts what VyOS said on one line: the last words count, and those which only say that something failed do
// not where there are others.
func reason(text string) string {
	var said, bare []string
	for line := range strings.Lines(text) {
		line = strings.Join(strings.Fields(line), " ")
		switch {
		case line == "":
		case sayFailed.MatchString(line), strings.HasPrefix(line, "[ ") && strings.HasSuffix(line, " ]"):
		case sayRefused.MatchString(line):
			bare = append(bare, line)
		default:
			said = append(said, line)
		}
	}
	if len(said) == 0 && len(bare) > 0 {
		said = []string{mute + ": " + strings.Join(bare, "; ")}
	}
	all := strings.Join(said, "; ")
	if len(all) > longest {
		all = "…" + strings.ToValidUTF8(all[len(all)-longest:], "")
	}
	return all
}
