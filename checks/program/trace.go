package program

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"vouch/checks"
	"vouch/routers/command"
)

// traceStart tells what is run. Of what is added to the environment it tells the names alone: a value may be
// a password.
func (c *checker) traceStart(ctx context.Context) {
	if !checks.Traced(ctx) {
		return
	}
	names := make([]string, len(c.env))
	for i, e := range c.env {
		names[i], _, _ = strings.Cut(e, "=")
	}
	checks.Tracef(ctx, checks.Sent, "run %s", Command{args: c.argv})
	checks.Tracef(ctx, checks.Sent, "with PATH, LANG=C, LC_ALL=C, %s", strings.Join(names, ", "))
}

// traceEnd tells what the program wrote, and how it ended.
func traceEnd(ctx context.Context, out command.Output, err error) {
	if !checks.Traced(ctx) {
		return
	}
	traceOutput(ctx, "stdout", out.Stdout)
	traceOutput(ctx, "stderr", out.Stderr)
	if out.Truncated {
		checks.Tracef(ctx, checks.Note, "more was written; this is the start of it")
	}
	if out.Unfinished {
		checks.Tracef(ctx, checks.Note, "it left something running that holds its output: there may be more of that")
	}
	how := fmt.Sprintf("exit status %d", out.Code)
	switch {
	case cut(err):
		how = "killed, with all that it had started"
	case err != nil:
		how = err.Error()
	case out.Signal != 0:
		how = "killed by " + unix.SignalName(out.Signal)
	}
	checks.Tracef(ctx, checks.Note, "%s", how)
}

// traceOutput tells a stream line by line, each with the stream's name.
func traceOutput(ctx context.Context, name string, b []byte) {
	if b = bytes.TrimRight(b, "\r\n"); len(b) == 0 {
		return
	}
	text := strings.ReplaceAll(string(b), "\n", "\n"+name+": ")
	checks.Tracef(ctx, checks.Got, "%s: %s", name, text)
}
