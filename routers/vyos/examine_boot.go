package vyos

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"vouch/routers"
)

// What contrib/vyos/install puts where an image upgrade leaves it, and the script that VyOS runs at the end of each boot.
const (
	keptDir    = "config"
	bootScript = "config/scripts/vyos-postconfig-bootup.script"
	earlyBoot  = "config/scripts/vyos-preconfig-bootup.script"
	startDir   = "config/scripts/vouch"
	start      = startDir + "/start"
)

// wayIn is the way out of what contrib/vyos/install does right.
const wayIn = "run contrib/vyos/install"

// examineBoot looks whether VyOS has booted, and whether vouch comes back at the next boot, and after an image upgrade,
// which carries over /config alone.
func (s system) examineBoot(u unit, method string) []routers.Finding {
	var found []routers.Finding
	warn := func(subject, text, wayOut string) {
		found = append(found, routers.Finding{Severity: routers.Warning, Subject: subject, Text: text, WayOut: wayOut})
	}
	switch status, err := os.ReadFile(s.path(bootMarker)); {
	case err != nil && method == MethodStatic: // examineCommits says more of it
	case err != nil:
		warn(s.path(bootMarker), "is not there: VyOS has not finished its boot", "wait; if it lasts, see `show log`")
	case strings.TrimSpace(string(status)) != "0":
		warn(s.path(bootMarker), "VyOS booted with errors in its configuration, so that a part of it is not in use", "see `show log`, correct it, and commit")
	}
	called, f := s.examineBootScript()
	found = append(found, f)
	if strings.Contains(called, start) {
		if info, err := os.Stat(s.path(start)); err != nil || info.Mode()&0o111 == 0 {
			warn(s.path(start), "is no program that can be run, so that vouch is not started at a boot", wayIn)
		}
		if _, err := os.Stat(s.path(startDir, unitName)); err != nil {
			warn(s.path(startDir, unitName), "is not there, and "+s.path(start)+" needs it at a boot", wayIn)
		}
	}
	if dir := filepath.Dir(u.file); u.file != "" && dir != s.path("run/systemd/system") && dir != s.path(startDir) {
		warn(u.file, "is lost with the next image of VyOS", "remove it, "+wayIn+" and then "+s.path(start)+", which puts one into /run at each boot")
	}
	for _, file := range u.needs() {
		if _, err := os.Stat(s.real(file)); errors.Is(err, fs.ErrNotExist) {
			found = append(found, routers.Finding{Severity: routers.Failing, Subject: file, Text: "is not there, and ExecStart= of " + orUnit(u.file) + " names it: vouch does not start",
				WayOut: wayIn + " for the program, put the configuration at /config/vouch.toml, and name both there"})
		}
		if !strings.HasPrefix(s.real(file), s.real("/"+keptDir)+"/") {
			warn(file, "is not below /config, and is lost with the next image of VyOS", "keep the program in /config/scripts/vouch, as contrib/vyos/install does, the configuration in /config/vouch.toml, and name both in ExecStart= of "+orUnit(u.file))
		}
	}
	return found
}

func orUnit(file string) string {
	if file == "" {
		return unitName
	}
	return file
}

// real is a path as the system has it, with its links followed as far as that goes.
func (s system) real(path string) string {
	if followed, err := filepath.EvalSymlinks(s.path(path)); err == nil {
		return followed
	}
	dir, base := filepath.Split(filepath.Clean(path))
	if dir == "/" || dir == "" {
		return s.path(path)
	}
	return filepath.Join(s.real(dir), base)
}

// examineBootScript looks for the line that starts vouch, and gives it.
func (s system) examineBootScript() (called string, f routers.Finding) {
	f = routers.Finding{Severity: routers.Warning, Subject: s.path(bootScript), WayOut: wayIn}
	text, err := os.ReadFile(s.path(bootScript))
	if err != nil {
		f.Text = "cannot be read, so that nobody knows whether vouch is started at a boot: " + err.Error()
		return "", f
	}
	call := callIn(string(text))
	switch info, err := os.Stat(s.path(bootScript)); {
	case call.line == "" && s.calledEarly():
		f.Text, f.WayOut = "does not start vouch; "+s.path(earlyBoot)+" does, when there are no interfaces, and no FRR that is configured, yet", "move the line"
	case call.line == "":
		f.Text = "does not start vouch, so that it does not run after a boot"
	case call.behind != 0:
		f.Text = fmt.Sprintf("may not come to start vouch, for its line %d: `%s`", call.behind, call.end)
		f.WayOut = "put `" + call.line + "` before that line"
	case err != nil || info.Mode()&0o111 == 0:
		f.Text, f.WayOut = "is not executable, so that VyOS does not run it, and vouch is not started at a boot", "chmod +x "+s.path(bootScript)
	default:
		return call.line, routers.Finding{Subject: s.path(bootScript), Text: "starts vouch at each boot"}
	}
	return call.line, f
}

func (s system) calledEarly() bool {
	text, _ := os.ReadFile(s.path(earlyBoot))
	return callIn(string(text)).line != ""
}

// A call is the line of a script that starts vouch, and the line before it that may end the script, or keep that line
// from being run. An empty line is none.
type call struct {
	line   string
	behind int // counted from 1; 0: nothing ends it before
	end    string
}

var (
	// starts is the command that contrib/vyos/install puts there, as one may have changed it.
	starts = regexp.MustCompile(`^(?:(?:sudo|exec|nohup|\.|(?:\S*/)?(?:ba|vba|da)?sh)\s+)*\S*/scripts/vouch/start(?:[\s;&|]|$)`)
	// ends is a command that may end the script, be it under a condition. An exec of nothing but redirections goes on.
	ends = regexp.MustCompile(`(?:^|[\s;&|{(])(?:exit(?:[\s;})]|$)|exec\s+[^\s<>&0-9]|set\s+-\w*e)`)
	// document begins what is another program's input.
	document = regexp.MustCompile(`(?:^|[^<])<<-?\s*["'\\]?(\w+)`)
)

// template is what has exit leave only the configuration session, and the script go on.
const template = "script-template"

// callIn finds it in the text of a script of the shell.
func callIn(script string) call {
	var c call
	until, before, templated := "", "", false
	for n, line := range slices.Collect(strings.Lines(script)) {
		line = strings.TrimRight(line, " \t\r\n")
		word := strings.TrimSpace(line)
		switch m := document.FindStringSubmatch(line); {
		case until != "":
			if word == until {
				until = ""
			}
		case word == "", word[0] == '#':
		case starts.MatchString(word):
			c.line = word
			if line != word && c.behind == 0 { // it is indented
				c.behind, c.end = n, before
			}
			return c
		case ends.MatchString(line) && !templated && c.behind == 0:
			c.behind, c.end = n+1, word
		case m != nil:
			until = m[1]
		default:
			templated = templated || strings.Contains(word, template)
		}
		before = word
	}
	return call{}
}
