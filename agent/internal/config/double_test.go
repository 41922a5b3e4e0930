package config

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"vouch/checks"
)

// double is a parser that knows two kinds of checks of its own, so that these tests do not change
// with the real kinds. The real ones are in the tests of the examples.
var double = parser{newSpec: doubleSpec, kinds: []string{"plain", "probe"}, hostname: func() (string, error) { return "apu01", nil }}

func doubleSpec(kind string) (checks.Spec, bool) {
	switch kind {
	case "plain":
		return &plainSpec{}, true
	case "probe":
		return &probeSpec{Strict: true}, true
	}
	return nil, false
}

// A plainSpec has no keys.
type plainSpec struct{ called string }

func (s *plainSpec) SetName(service, check string) { s.called = service + "/" + check }
func (*plainSpec) Validate() []checks.Problem      { return nil }
func (*plainSpec) New() (checks.Checker, error)    { return nil, errors.New("a double") }

// A shared part, embedded as kinds may.
type shared struct {
	From netip.Addr `toml:"source"`
}

// A probeSpec has a key of each type.
type probeSpec struct {
	shared
	Target string            `toml:"target"`
	Tries  int               `toml:"tries"`
	Port   uint16            `toml:"port"`
	Wait   time.Duration     `toml:"wait"`
	Load   float64           `toml:"load"`
	Strict bool              `toml:"strict"` // true unless written
	Tidy   *bool             `toml:"tidy"`
	Names  []string          `toml:"names"`
	Accept acceptList        `toml:"accept"`
	Level  level             `toml:"level"`
	Env    map[string]string `toml:"env"`
	Limits *limits           `toml:"limits"`
	Secret string            // no key
	valid  bool              // Validate found nothing
}

type limits struct {
	Most int `toml:"most"`
}

// Validate sets a default and finds mistakes, as those of the real kinds do.
func (s *probeSpec) Validate() []checks.Problem {
	var ps []checks.Problem
	if s.Target == "" {
		ps = append(ps, checks.Problem{Key: "target", What: "is missing", WayOut: `write target = "127.0.0.1:53"`})
	}
	if s.Tries == 0 {
		s.Tries = 1
	}
	if s.Tries < 0 {
		ps = append(ps, checks.Problem{Key: "tries", What: "must be at least 1", Got: strconv.Itoa(s.Tries), WayOut: "use 1 or leave it out"})
	}
	for _, n := range s.Names {
		if strings.Contains(n, " ") {
			ps = append(ps, checks.Problem{Key: "names", What: "holds a space", Got: n})
		}
	}
	if v, ok := s.Env["PATH"]; ok {
		ps = append(ps, checks.Problem{Key: "env.PATH", What: "is set already", Got: v, WayOut: "leave it out"})
	}
	if s.Port > 0 && s.Wait > 0 {
		ps = append(ps, checks.Problem{What: "port and wait exclude each other", WayOut: "keep one of them"})
	}
	s.valid = len(ps) == 0
	return ps
}

func (*probeSpec) New() (checks.Checker, error) { return nil, errors.New("a double") }

func (s *probeSpec) Targets() []netip.Addr {
	if !s.valid {
		panic("Targets of a Spec with problems")
	}
	if a, ok := addressOf(s.Target); ok {
		return []netip.Addr{a}
	}
	return nil
}

// An acceptList is written as "any" or as a list.
type acceptList []string

func (a *acceptList) UnmarshalTOML(v any) error {
	switch v := v.(type) {
	case string:
		if v != "any" {
			return errors.New(`must be "any" or a list`)
		}
		*a = nil
		return nil
	case []any:
		for _, e := range v {
			*a = append(*a, fmt.Sprint(e))
		}
		return nil
	}
	return errors.New(`must be "any" or a list`)
}

// A level is written as a word.
type level int

func (l level) MarshalText() ([]byte, error) { return []byte(strings.Repeat("high", int(l))), nil }

func (l *level) UnmarshalText(b []byte) error {
	*l = level(strings.Count(string(b), "high"))
	if *l == 0 {
		return fmt.Errorf("level %q is not high", b)
	}
	return nil
}
