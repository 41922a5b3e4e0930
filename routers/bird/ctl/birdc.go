package ctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"vouch/routers"
	"vouch/routers/command"
)

// birdcIndent is what birdc -v puts before a line that goes on, in 1.6.8, 2.0.7, 2.0.12, 2.17.6 and 3.1.8.
const birdcIndent = "     "

// A Birdc runs BIRD's own client once for each command, where the socket cannot be had.
type Birdc struct {
	Program string // absolute, or a name looked up in PATH
	Socket  string // empty: birdc's own default
	Timeout time.Duration
	// ReadOnly has BIRD refuse every change.
	ReadOnly bool
}

// Do puts one command and reads its reply, and the version that birdc was greeted with. birdc's exit
// status is not looked at: 1.6 and 2.0 up to 2.0.9 exit with 0 for a refusal too. Errors are as
// Session.Do's. Safe for concurrent use.
func (b Birdc) Do(ctx context.Context, cmd string) (Reply, Version, error) {
	if err := Check(cmd); err != nil {
		return Reply{}, Version{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, b.Timeout)
	defer cancel()
	args := []string{"-v"}
	if b.ReadOnly {
		args = append(args, "-r")
	}
	if b.Socket != "" {
		args = append(args, "-s", b.Socket)
	}
	out, err := command.Run(ctx, command.Spec{Path: b.Program, Args: append(args, cmd), MaxOutput: MaxReply})
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return Reply{}, Version{}, routers.Errorf(errors.Join(routers.ErrUnavailable, ctx.Err()),
			"%s: no answer in time: bird hangs, or reads a large configuration", b.Program)
	case errors.Is(err, os.ErrNotExist):
		return Reply{}, Version{}, routers.Errorf(errors.Join(routers.ErrUnavailable, err), "%s: no such program: install BIRD, or name its birdc", b.Program)
	case err != nil:
		return Reply{}, Version{}, routers.Errorf(routers.ErrUnavailable, "%w", err)
	case out.Truncated:
		return Reply{}, Version{}, routers.Errorf(routers.ErrUnavailable, "%s: a reply longer than %d MiB", b.Program, MaxReply>>20)
	}
	reply, version, err := b.judge(out)
	if err != nil {
		return Reply{}, Version{}, b.explain(out, err)
	}
	return reply, version, nil
}

// judge takes the lines apart: the greeting, the answer to restrict that birdc -r asks for, and ours. birdc
// leaves out a last line that has no text, so where that is missing its exit status must tell that it got
// there.
func (b Birdc) judge(out command.Output) (Reply, Version, error) {
	lines := strings.Split(strings.TrimSuffix(string(out.Stdout), "\n"), "\n")
	greeting := Reply{}
	if _, err := greeting.add(lines[0], birdcIndent); err != nil {
		return Reply{}, Version{}, err
	}
	version, err := parseBanner(greeting.Lines[0].Text)
	if err != nil {
		return Reply{}, Version{}, err
	}
	lines = lines[1:]
	if b.ReadOnly {
		var restrict Reply
		if len(lines) == 0 {
			return Reply{}, Version{}, io.ErrUnexpectedEOF
		}
		if _, err := restrict.add(lines[0], birdcIndent); err != nil || !restrict.Has(Restricted) {
			return Reply{}, Version{}, fmt.Errorf("not restricted: %.80q", lines[0])
		}
		lines = lines[1:]
	}
	reply, err := addAll(lines, out.Code == 0)
	return reply, version, err
}

// addAll makes a reply of lines, of which the last one may be missing when the reply is known to be whole.
func addAll(lines []string, whole bool) (Reply, error) {
	var reply Reply
	for i, line := range lines {
		last, err := reply.add(line, birdcIndent)
		if err == nil && last && i < len(lines)-1 {
			err = fmt.Errorf("%w: there is more behind the reply", errGarbage)
		}
		if last || err != nil {
			return reply, err
		}
	}
	if !whole {
		return reply, io.ErrUnexpectedEOF
	}
	reply.Lines = append(reply.Lines, Line{})
	return reply, nil
}

// explain prefers what birdc itself complains of, such as a socket that is not there.
func (b Birdc) explain(out command.Output, err error) error {
	complaint := strings.Join(strings.Fields(string(out.Stderr)), " ")
	if complaint == "" {
		complaint = fmt.Sprintf("%v (exit status %d)", err, out.Code)
	}
	return routers.Errorf(routers.ErrUnavailable, "%s: %s", b.Program, complaint)
}
