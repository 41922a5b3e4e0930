// Package program checks by running a program: the type "exec". Plugins written for Nagios, and check
// commands written for other health checkers, work as they are.
package program

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"vouch/checks"
	"vouch/routers/command"
)

// A Spec is the table of a check of type "exec".
type Spec struct {
	Command Command           `toml:"command"`            // ["program", "argument", …]; with shell: a string
	Shell   bool              `toml:"shell"`              // run the string by /bin/sh -c
	Env     map[string]string `toml:"env" empty:"ok"`     // added to PATH, LANG, LC_ALL, ANYCAST_SERVICE and ANYCAST_CHECK
	Unknown []int             `toml:"unknown" empty:"ok"` // exit statuses that are neither ok nor failed, such as [3]

	Service string `toml:"-"` // set by SetName
	Check   string `toml:"-"` // set by SetName
}

// A Command is a program with its arguments, or a line for the shell. The zero Command is none.
type Command struct {
	args  []string
	line  string
	wrong string // what was written instead, as Go prints it
}

// UnmarshalTOML takes whatever was written, so that Validate can report it beside all else.
func (c *Command) UnmarshalTOML(v any) error {
	*c = Command{}
	switch v := v.(type) {
	case string:
		c.line = v
		if strings.TrimSpace(v) == "" {
			c.wrong = strconv.Quote(v)
		}
	case []any:
		for _, e := range v {
			s, ok := e.(string)
			if !ok {
				c.wrong = fmt.Sprint(v)
				return nil
			}
			c.args = append(c.args, s)
		}
		if len(v) == 0 || c.args[0] == "" {
			c.wrong = fmt.Sprintf("%q", c.args)
		}
	default:
		c.wrong = fmt.Sprint(v)
	}
	return nil
}

// MarshalTOML writes what UnmarshalTOML reads.
func (c Command) MarshalTOML() ([]byte, error) {
	if c.args == nil {
		return []byte(quote(c.line)), nil
	}
	quoted := make([]string, len(c.args))
	for i, a := range c.args {
		quoted[i] = quote(a)
	}
	return []byte("[" + strings.Join(quoted, ", ") + "]"), nil
}

// quote gives a TOML basic string.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, "\\u%04X", r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// String gives the command as people would type it.
func (c Command) String() string {
	if c.args == nil {
		return c.line
	}
	words := slices.Clone(c.args)
	for i, w := range words {
		if w == "" || strings.ContainsAny(w, " \t\n\"'$\\|&;<>()*?#") {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// Validate gives all that is wrong in any place; Local tells whether the program is there.
func (s *Spec) Validate() []checks.Problem {
	ps := s.validateCommand()
	for _, k := range slices.Sorted(maps.Keys(s.Env)) {
		switch {
		case k == "" || strings.ContainsAny(k, "=\x00"):
			ps = append(ps, checks.Problem{Key: "env", What: "is not the name of an environment variable", Got: k,
				WayOut: "write names of letters, digits and underscores"})
		case k == envService || k == envCheck:
			ps = append(ps, checks.Problem{Key: "env." + k, What: "is set by vouch", Got: s.Env[k], WayOut: "leave it out"})
		case strings.Contains(s.Env[k], "\x00"):
			ps = append(ps, checks.Problem{Key: "env." + k, What: "must not hold a NUL", WayOut: "leave the NUL out"})
		}
	}
	for _, n := range s.Unknown {
		if n < 1 || n > 255 {
			ps = append(ps, checks.Problem{Key: "unknown", What: "must be exit statuses from 1 to 255", Got: strconv.Itoa(n),
				WayOut: "write unknown = [3] for what Nagios plugins call unknown; 0 is always ok"})
		}
	}
	return ps
}

func (s *Spec) validateCommand() []checks.Problem {
	c := s.Command
	p := checks.Problem{Key: "command"}
	switch {
	case c.wrong != "":
		p.What, p.Got = "must be a list: the program and its arguments", c.wrong
		p.WayOut = `write command = ["/usr/lib/nagios/plugins/check_dns", "-H", "localhost"]`
	case c.args == nil && c.line == "":
		p.What, p.WayOut = "is missing", `write command = ["/path/to/program", "argument"]`
	case c.args == nil && !s.Shell:
		p.What, p.Got = "is a string, and no shell reads it", c.line
		p.WayOut = "write a list: " + listOf(c.line) + "; or set shell = true"
	case c.args != nil && s.Shell:
		p.Key, p.What, p.Got = "shell", "goes with a command that is a string, not a list", "true"
		p.WayOut = "leave out shell, or write the command as one string"
	case c.args != nil && strings.Contains(c.args[0], "/") && !strings.HasPrefix(c.args[0], "/"):
		p.What, p.Got = "must name the program by an absolute path, or by a name found in PATH", c.args[0]
		p.WayOut = "write where it is from / on"
	case strings.Contains(c.line+strings.Join(c.args, ""), "\x00"):
		p.What, p.WayOut = "must not hold a NUL", "leave the NUL out"
	default:
		return nil
	}
	return []checks.Problem{p}
}

// listOf gives the words of a line as the list that it may have been meant to be.
func listOf(line string) string {
	b, _ := Command{args: strings.Fields(line)}.MarshalTOML() // it has no way to fail
	return "command = " + string(b)
}

// Local tells of a program that is not there, or that this process may not run. What a line for the shell runs is
// seen when it is run.
func (s *Spec) Local() []checks.Problem {
	if s.Shell {
		return nil
	}
	if _, err := command.Look(s.Command.args[0]); err != nil {
		return []checks.Problem{{Key: "command", What: err.Error(), WayOut: "install it and let this user run it, or write where it is"}}
	}
	return nil
}

// SetName tells the check whose it is; the program sees it in its environment.
func (s *Spec) SetName(service, check string) { s.Service, s.Check = service, check }

// New gives the check. It runs nothing.
func (s *Spec) New() (checks.Checker, error) {
	c := &checker{name: s.Command.String(), unknown: slices.Clone(s.Unknown), env: []string{
		envService + "=" + s.Service, envCheck + "=" + s.Check}}
	if c.argv = slices.Clone(s.Command.args); s.Shell {
		c.argv = []string{"/bin/sh", "-c", s.Command.line}
	}
	if len(c.argv) == 0 {
		return nil, fmt.Errorf("command is missing")
	}
	for _, k := range slices.Sorted(maps.Keys(s.Env)) {
		c.env = append(c.env, k+"="+s.Env[k])
	}
	return c, nil
}
