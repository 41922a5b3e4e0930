// Package unit checks that a unit of systemd is active, and not in a crash loop: the type "systemd". It asks
// systemd over the system bus, and hears from it of each change.
package unit

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"vouch/checks"
)

// nameMax is the longest name of a unit, in bytes (UNIT_NAME_MAX).
const nameMax = 255

// The defaults of the two keys that tell a crash loop.
const (
	defaultRestarts = 3
	defaultWithin   = 5 * time.Minute
)

// suffixes are the types of units there are (systemd.unit(5)).
var suffixes = []string{"service", "socket", "target", "device", "mount", "automount", "swap", "timer", "path", "slice", "scope"}

// A Spec is the table of a check of type "systemd".
type Spec struct {
	// Unit is the name of the unit; ".service" may be left out. A template needs its instance.
	Unit string `toml:"unit"`
	// ExitedOK says whether a service of Type=oneshot may have done its work and ended
	// (RemainAfterExit=yes). One of another type whose process has ended is never ok.
	ExitedOK bool `toml:"exited_ok"`
	// ActivatingGrace is how long after it was started the unit may be activating: so long that is
	// neither ok nor failed. 0: it is failed at once.
	ActivatingGrace time.Duration `toml:"activating_grace" empty:"ok"`
	// MaxRestarts is how often systemd may have restarted the service by itself within RestartsWithin;
	// default 3. What an operator restarts does not count; of what was before the agent came, what systemd
	// tells the time of: the last one, or all if the machine was started since.
	MaxRestarts *int `toml:"max_restarts"`
	// RestartsWithin is the time that restarts count for; default 5m.
	RestartsWithin time.Duration `toml:"restarts_within"`
}

var (
	_ checks.Spec    = (*Spec)(nil)
	_ checks.Hinter  = (*Spec)(nil)
	_ checks.Localer = (*Spec)(nil)
)

// Validate completes the name, sets the defaults and gives all that is wrong.
func (s *Spec) Validate() (ps []checks.Problem) {
	if p := s.nameProblem(); p != nil {
		ps = append(ps, *p)
	} else if !isService(s.Unit) {
		return append(s.serviceKeys(), s.graceProblems()...)
	}
	if s.MaxRestarts == nil {
		n := defaultRestarts
		s.MaxRestarts = &n
	}
	if n := *s.MaxRestarts; n < 0 || n > 1000 {
		ps = append(ps, checks.Problem{Key: "max_restarts", What: "must be from 0 to 1000", Got: strconv.Itoa(n), WayOut: "write 3, or leave it out"})
	}
	if s.RestartsWithin == 0 {
		s.RestartsWithin = defaultWithin
	}
	if s.RestartsWithin < time.Second || s.RestartsWithin > 24*time.Hour {
		ps = append(ps, checks.Problem{Key: "restarts_within", What: "must be from 1s to 24h", Got: s.RestartsWithin.String(), WayOut: `write "5m", or leave it out`})
	}
	return append(ps, s.graceProblems()...)
}

func (s *Spec) graceProblems() []checks.Problem {
	if g := s.ActivatingGrace; g < 0 || g > time.Hour {
		return []checks.Problem{{Key: "activating_grace", What: "must be from 0s to 1h", Got: g.String(), WayOut: `write such as "10s"`}}
	}
	return nil
}

// serviceKeys refuses what only a service has.
func (s *Spec) serviceKeys() (ps []checks.Problem) {
	for _, k := range []struct {
		key string
		set bool
	}{{"exited_ok", s.ExitedOK}, {"max_restarts", s.MaxRestarts != nil}, {"restarts_within", s.RestartsWithin != 0}} {
		if k.set {
			ps = append(ps, checks.Problem{Key: k.key, What: "has no effect on a unit that is no service", WayOut: "remove it"})
		}
	}
	return ps
}

// nameProblem completes the name, or says what is wrong with it.
func (s *Spec) nameProblem() *checks.Problem {
	const wayOut = `write such as "unbound.service"`
	p := &checks.Problem{Key: "unit", Got: s.Unit, WayOut: wayOut}
	name := s.Unit
	if i := strings.LastIndexByte(name, '.'); i < 0 || !slices.Contains(suffixes, name[i+1:]) {
		name += ".service"
	}
	stem := name[:strings.LastIndexByte(name, '.')]
	switch {
	case s.Unit == "":
		p.What, p.WayOut = "is missing", `write unit = "unbound.service"`
	case strings.HasPrefix(s.Unit, "/"):
		p.What, p.WayOut = "is a path, not the name of a unit", "write what systemd-escape --path --suffix=mount prints for it"
		if file := path.Base(s.Unit); slices.Contains(suffixes, strings.TrimPrefix(path.Ext(file), ".")) {
			p.WayOut = fmt.Sprintf("write %q", file)
		}
	case strings.ContainsAny(s.Unit, "*?["):
		p.What, p.WayOut = "must be one unit, not a pattern", "write a check for each"
	case stem == "" || strings.Trim(stem, "@") == "" || strings.ContainsFunc(stem, func(r rune) bool { return !nameRune(r) }):
		p.What = `must be of letters, digits and ":-_.\@"`
	case strings.HasSuffix(stem, "@"):
		p.What, p.WayOut = "is a template, of which nothing runs", fmt.Sprintf(`name the instance, such as "%smain%s"`, stem, name[len(stem):])
	case len(name) > nameMax:
		p.What = "is longer than 255 bytes"
	default:
		s.Unit = name
		return nil
	}
	return p
}

// nameRune says whether a unit may have r in its name (VALID_CHARS of systemd).
func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(`:-_.\@`, r)
}

func isService(unit string) bool { return strings.HasSuffix(unit, ".service") }

// Hint gives the way out of a value of the wrong type.
func (*Spec) Hint(key string) string {
	switch key {
	case "exited_ok":
		return "write true or false"
	case "activating_grace":
		return `write a time such as "10s"`
	case "restarts_within":
		return `write a time such as "5m"`
	case "max_restarts":
		return "write a number such as 3"
	}
	return ""
}

// New gives the check. It asks nothing.
func (s *Spec) New() (checks.Checker, error) {
	c := &checker{unit: s.Unit, bus: shared, alarm: newAlarm(), rules: rules{exitedOK: s.ExitedOK, grace: s.ActivatingGrace}}
	if isService(s.Unit) && s.MaxRestarts != nil {
		c.rules.maxRestarts, c.rules.within = *s.MaxRestarts, s.RestartsWithin
	}
	return c, nil
}
