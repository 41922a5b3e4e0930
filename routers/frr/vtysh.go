package frr

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"vouch/routers"
	"vouch/routers/command"
	"vouch/routers/frr/vty"
)

// perCommand is the time that each further command of one vtysh may take. Measured on 8.4.4: below
// 0.2 ms, beside 60 ms for vtysh itself.
const perCommand = 10 * time.Millisecond

// byCommand talks by running vtysh. It always names one daemon: without that vtysh connects to them
// all, and hangs for ever when any of them does.
func byCommand(o Options) talker {
	return func(ctx context.Context, s session) ([]vty.Reply, error) {
		if err := vty.Loading(o.SocketDir, s.daemon); err != nil {
			return nil, err
		}
		for _, c := range slices.Concat(s.enter, s.commands) {
			if err := vty.Check(c); err != nil {
				return nil, err
			}
		}
		var replies []vty.Reply
		for len(replies) < len(s.commands) {
			rest := session{daemon: s.daemon, enter: s.enter, commands: s.commands[len(replies):]}
			got, err := runVtysh(ctx, o, rest)
			if err != nil {
				return nil, err
			}
			replies = append(replies, got...)
		}
		return replies, nil
	}
}

// runVtysh runs one vtysh. It stops at the first command that is refused, so there may be fewer
// replies than commands, but there is at least one.
func runVtysh(ctx context.Context, o Options, s session) ([]vty.Reply, error) {
	commands := slices.Concat(s.enter, s.commands)
	ctx, cancel := context.WithTimeout(ctx, o.Timeout+time.Duration(len(commands))*perCommand)
	defer cancel()
	end, _ := ctx.Deadline()
	waits := time.Until(end)
	args := []string{"-d", s.daemon, "--vty_socket", o.SocketDir, "-E"}
	for _, c := range commands {
		args = append(args, "-c", c)
	}
	out, err := command.Run(ctx, command.Spec{Path: o.Vtysh, Args: args, MaxOutput: vty.MaxReply})
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return nil, vty.Silent(name(s), waits, context.Cause(ctx))
	case errors.Is(err, os.ErrNotExist):
		return nil, routers.Errorf(errors.Join(routers.ErrUnavailable, err), "%s: no such program: install FRR, or name its vtysh", o.Vtysh)
	case err != nil:
		return nil, routers.Errorf(routers.ErrUnavailable, "%w", err)
	case out.Signal != 0:
		return nil, routers.Errorf(routers.ErrUnavailable, "%s: killed by %s", name(s), unix.SignalName(out.Signal))
	case out.Truncated:
		return nil, routers.Errorf(routers.ErrUnavailable, "%s: a reply longer than %d MiB", name(s), vty.MaxReply>>20)
	}
	return judgeVtysh(s, out)
}

// name is who answers.
func name(s session) string { return "vtysh -d " + s.daemon }

// judgeVtysh makes replies of what one vtysh left. Its exit status is 0 for a warning, 1 for
// everything else, and in some releases 0 also when the daemon is not there.
func judgeVtysh(s session, out command.Output) ([]vty.Reply, error) {
	texts := splitEcho(string(out.Stdout), slices.Concat(s.enter, s.commands))
	complaint := strings.TrimSpace(string(out.Stderr))
	switch {
	case strings.Contains(complaint, "is not running"), strings.Contains(complaint, "failed to connect"), len(texts) == 0:
		if complaint == "" {
			complaint = fmt.Sprintf("no command was run (exit status %d)", out.Code)
		}
		return nil, routers.Errorf(routers.ErrUnavailable, "%s: %s", name(s), complaint)
	case len(texts) <= len(s.enter):
		last := len(texts) - 1
		return nil, fmt.Errorf("%s: %w", name(s), (vty.Reply{Status: 1, Text: texts[last]}).Refused(s.enter[last]))
	}
	replies := make([]vty.Reply, 0, len(s.commands))
	for _, text := range texts[len(s.enter):] {
		replies = append(replies, vty.Reply{Text: text})
	}
	if out.Code != 0 || len(replies) < len(s.commands) {
		replies[len(replies)-1].Status = 1
	}
	return replies, nil
}

// splitEcho parts vtysh's output at its echo (-E) of each command: a prompt, which holds the host's
// name, "# " and the command, on a line of its own. It gives the texts of the commands that were run.
func splitEcho(out string, commands []string) []string {
	var texts []string
	var text strings.Builder
	next := 0
	for line := range strings.Lines(out) {
		if next < len(commands) && strings.HasSuffix(strings.TrimSuffix(line, "\n"), "# "+commands[next]) {
			if next > 0 {
				texts = append(texts, text.String())
			}
			text.Reset()
			next++
			continue
		}
		text.WriteString(line)
	}
	if next > 0 {
		texts = append(texts, text.String())
	}
	return texts
}
