// Package file checks a flag file: that it is there, or is not, or is fresh, or says what it should. Where
// the kernel can tell of changes (inotify) they are seen in milliseconds.
package file

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"vouch/checks"
	"vouch/checks/payload"
)

const (
	// maxRead is how much is read in search of what is expected.
	maxRead = 64 << 10
	// localPatience is how long Local waits for a file system.
	localPatience = time.Second
	// pathMax and nameMax are what Linux takes, in bytes (limits.h).
	pathMax, nameMax = 4095, 255
)

// A Spec is the table of a check of type "file". A symbolic link counts as what it leads to, as with
// test -e: one that leads nowhere is not there.
type Spec struct {
	// Path is absolute. Whatever is there counts, a directory or a socket too; with a / at the end, a
	// directory only.
	Path string `toml:"path"`
	// Exists says whether it must be there; default true.
	Exists *bool `toml:"exists"`
	// MaxAge is how long ago it may have been modified (mtime), and how far ahead of the clock that may
	// lie; 0: does not matter.
	MaxAge time.Duration `toml:"max_age"`
	// Contains is a text that must be somewhere in its first 64 KiB.
	Contains string `toml:"contains"`
	// Match is a regular expression (RE2) that its first 64 KiB must match.
	Match string `toml:"match"`
}

var (
	_ checks.Spec    = (*Spec)(nil)
	_ checks.Hinter  = (*Spec)(nil)
	_ checks.Localer = (*Spec)(nil)
)

// Validate sets the default of Exists and gives all that is wrong.
func (s *Spec) Validate() (ps []checks.Problem) {
	if s.Exists == nil {
		yes := true
		s.Exists = &yes
	}
	ps = append(ps, s.pathProblems()...)
	if s.MaxAge < 0 {
		ps = append(ps, checks.Problem{Key: "max_age", What: "must not be negative", Got: s.MaxAge.String(), WayOut: `write such as "5m"`})
	}
	if _, err := payload.Compile(s.Match); err != nil {
		ps = append(ps, checks.Problem{Key: "match", What: err.Error(), Got: s.Match, WayOut: "write a regular expression as RE2 has them, or use contains for plain text"})
	}
	if len(s.Contains) > maxRead {
		ps = append(ps, checks.Problem{Key: "contains", What: "is longer than 64 KiB, of which no more is read", WayOut: "look for a part of it"})
	}
	if s.Contains != "" && s.Match != "" {
		ps = append(ps, checks.Problem{Key: "match", What: "cannot go with contains", Got: s.Match, WayOut: "remove one of them"})
	}
	if *s.Exists {
		return ps
	}
	for _, k := range []struct {
		key string
		set bool
	}{{"max_age", s.MaxAge != 0}, {"contains", s.Contains != ""}, {"match", s.Match != ""}} {
		if k.set {
			ps = append(ps, checks.Problem{Key: k.key, What: "has no effect with exists = false", WayOut: "remove one of them"})
		}
	}
	return ps
}

func (s *Spec) pathProblems() []checks.Problem {
	p := checks.Problem{Key: "path", Got: s.Path, WayOut: `write where it is from / on, such as "/run/anycast/maintenance"`}
	names := strings.Split(s.Path, "/")
	switch {
	case s.Path == "":
		p.What, p.WayOut = "is missing", `write path = "/run/anycast/maintenance"`
	case !filepath.IsAbs(s.Path):
		p.What = "must be absolute"
	case strings.Contains(s.Path, "\x00"):
		p.What, p.Got, p.WayOut = "must not hold a NUL", strconv.Quote(s.Path), "leave the NUL out"
	case slices.Contains(names, ".."):
		p.What, p.WayOut = `must not hold "..", which behind a link leads elsewhere than it seems`, "write the path without it"
	case filepath.Clean(s.Path) == "/":
		p.What = "must name a file, not the root of them all"
	case len(s.Path) > pathMax || slices.ContainsFunc(names, func(name string) bool { return len(name) > nameMax }):
		p.What, p.Got, p.WayOut = "is longer than Linux takes", "", "use a path of at most 4095 bytes, with names of at most 255"
	default:
		return nil
	}
	return []checks.Problem{p}
}

// Hint gives the way out of a value of the wrong type.
func (*Spec) Hint(key string) string {
	switch key {
	case "exists":
		return "write true or false"
	case "max_age":
		return `write a time such as "5m"`
	}
	return ""
}

// Local tells of a path that this process does not see as others do, and of one that it may not look up.
func (s *Spec) Local() []checks.Problem {
	if ps := s.hidden(); ps != nil {
		return ps
	}
	ctx, cancel := context.WithTimeout(context.Background(), localPatience)
	defer cancel()
	return s.unseen(looks.look(ctx, view{s.Path, s.Contains != "" || s.Match != ""}))
}

// unseen says why this process cannot look the path up, or may not. Without ok it was waited for in vain.
func (s *Spec) unseen(f finding, ok bool) []checks.Problem {
	p := checks.Problem{Key: "path", Got: s.Path}
	switch {
	case !ok:
		p.What, p.WayOut = "its file system does not answer", "see whether its server is up, or put the file on a local disk"
	case denied(f.err):
		p.What, p.WayOut = f.obstacle(s.Path), "give the agent's user the right to it"
	default:
		return nil
	}
	return []checks.Problem{p}
}

// New gives the check. It opens nothing.
func (s *Spec) New() (checks.Checker, error) {
	c := &checker{path: s.Path, absent: s.Exists != nil && !*s.Exists, maxAge: s.MaxAge, contains: []byte(s.Contains), kernel: &shared, looks: looks}
	if s.Match != "" {
		re, err := payload.Compile(s.Match)
		if err != nil {
			return nil, err
		}
		c.match = re
	}
	return c, nil
}
