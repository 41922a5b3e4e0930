package program

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"vouch/checks"
	"vouch/routers/command"
)

const (
	envService = "ANYCAST_SERVICE"
	envCheck   = "ANYCAST_CHECK"
	// maxOutput is kept of what the program writes, from its start, where a plugin says how things are.
	maxOutput = 4 << 10
	// maxLine bounds what is shown of its first line, in characters.
	maxLine = 200
)

type checker struct {
	name    string
	argv    []string
	env     []string // names with values, which may be secrets
	unknown []int
}

// String gives such as "exec /usr/lib/nagios/plugins/check_dns -H localhost".
func (c *checker) String() string { return "exec " + c.name }

// Check runs the program once. It returns when the program has ended and all of its process group is
// gone; one that cannot be killed holds it up beyond its context.
func (c *checker) Check(ctx context.Context) error {
	start := time.Now()
	c.traceStart(ctx)
	out, err := command.Run(ctx, command.Spec{
		Path: c.argv[0], Args: c.argv[1:], Env: c.env, MaxOutput: maxOutput, ByStatus: true,
	})
	f := c.judge(ctx, start, out, err)
	traceEnd(ctx, out, err)
	if f == nil {
		return nil
	}
	return f
}

// judge says what the program's end means; nil: ok.
func (c *checker) judge(ctx context.Context, start time.Time, out command.Output, err error) *checks.Failure {
	line := firstLine(out)
	switch {
	case checks.Starved(err), errors.Is(err, syscall.ETXTBSY): // it is just being written
		return &checks.Failure{Reason: checks.ReasonUnknown, Err: err}
	case err != nil && !cut(err):
		return &checks.Failure{Reason: checks.ReasonExec, Err: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &checks.Failure{Reason: checks.ReasonTimeout, Detail: with("killed after "+checks.Allowed(ctx, start), line)}
	case err != nil:
		return &checks.Failure{Reason: checks.ReasonUnknown, Detail: "broken off", Err: err}
	case out.Signal != 0:
		return &checks.Failure{Reason: checks.ReasonStatus, Detail: with("killed by "+unix.SignalName(out.Signal), line)}
	case out.Code == 0:
		return nil
	case slices.Contains(c.unknown, out.Code):
		return &checks.Failure{Reason: checks.ReasonUnknown, Detail: with(fmt.Sprintf("exit status %d", out.Code), line)}
	}
	return &checks.Failure{Reason: checks.ReasonStatus, Detail: with(fmt.Sprintf("exit status %d", out.Code), line)}
}

// cut says whether the program was killed because its context ended.
func cut(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

func with(what, line string) string {
	if line == "" {
		return what
	}
	return what + ": " + line
}

// firstLine gives the first line of the output that says something: of stdout, where plugins speak, or else of stderr.
// Behind a bar a plugin writes figures for programs.
func firstLine(out command.Output) string {
	for _, b := range [][]byte{out.Stdout, out.Stderr} {
		for _, l := range strings.FieldsFunc(string(b), func(r rune) bool { return r == '\n' || r == '\r' }) {
			text, _, _ := strings.Cut(l, "|")
			if text = clean(text); text != "" {
				return text
			}
		}
	}
	return ""
}

// clean makes one printable line of at most maxLine characters.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r), r == utf8.RuneError:
			return -1
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if utf8.RuneCountInString(s) > maxLine {
		s = string([]rune(s)[:maxLine]) + "…"
	}
	return s
}
