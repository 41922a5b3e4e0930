package frr

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"

	"vouch/routers"
	"vouch/routers/frr/vty"
)

// A session is a series of commands for one daemon. They are understood in the node that the commands
// of enter lead to, and do not depend on each other: one that is refused stops none that follow.
type session struct {
	daemon   string
	enter    []string
	commands []string
	bulk     bool // of staticd, zebra or mgmtd, where many commands are better committed together
}

// A talker puts a session to a daemon and gives one reply for each of its commands, in order. It fails
// as a whole, with an error of a class of package routers, when a reply is missing. It may be called
// concurrently.
type talker func(ctx context.Context, s session) ([]vty.Reply, error)

func newTalker(o Options) talker {
	socket := bySocket(o)
	switch o.Via {
	case ViaSocket:
		return socket
	case ViaCommand:
		return byCommand(o)
	}
	return orElse(socket, byCommand(o))
}

// bySocket talks over the daemon's own socket.
func bySocket(o Options) talker {
	return func(ctx context.Context, s session) ([]vty.Reply, error) {
		conn, err := vty.Dial(ctx, o.SocketDir, s.daemon)
		if err != nil {
			return nil, err
		}
		c := vty.New(conn, o.Timeout)
		defer c.Close()
		return converse(ctx, c, s)
	}
}

// converse goes to the node first, and on only when it is there: elsewhere the commands might mean
// something else. A vty begins without the right to configure, hence enable, which needs no password.
func converse(ctx context.Context, c *vty.Client, s session) ([]vty.Reply, error) {
	if s.bulk && len(s.commands) >= leastBulk {
		replies, err := inBulk(ctx, c, s)
		if !errors.Is(err, routers.ErrRefused) {
			return replies, err
		}
		if _, err := c.Do(ctx, "end"); err != nil { // each has a reply of its own then
			return nil, err
		}
	}
	if err := enter(ctx, c, s.daemon, s.enter...); err != nil {
		return nil, err
	}
	return put(ctx, c, s.daemon, s.commands)
}

// enter goes to a node.
func enter(ctx context.Context, c *vty.Client, daemon string, commands ...string) error {
	commands = append([]string{"enable"}, commands...)
	replies, err := c.Do(ctx, commands...)
	if err != nil {
		return err
	}
	return refusal(daemon, commands, replies)
}

// refusal gives the first.
func refusal(daemon string, commands []string, replies []vty.Reply) error {
	for i, r := range replies {
		if err := r.Refused(commands[i]); err != nil {
			return fmt.Errorf("%s: %w", daemon, err)
		}
	}
	return nil
}

const (
	// leastBulk is from how many commands on they are committed together: each commit costs as much as the
	// whole configuration. A thousand static routes took 80 s one by one, and 1 s so (8.4.4).
	leastBulk = 8
	// mostBulk bounds one commit, which costs 0.25 s with so many (mgmtd 10.3, a quiet machine).
	mostBulk = 100
	// commitTakes is how many times that of any other answer a commit may take: mgmtd on a busy machine was seen
	// to need more than a second.
	commitTakes = 4
)

// inBulk puts the commands as vtysh loads a file: committed together, or not at all. mgmtd wants its lock
// held for that. An error of class routers.ErrRefused says that some are not made, and does not say which.
func inBulk(ctx context.Context, c *vty.Client, s session) ([]vty.Reply, error) {
	start := []string{"configure terminal", "XFRR_start_configuration"}
	if s.daemon == mgmtd {
		start[0] = "configure terminal file-lock"
	}
	var all []vty.Reply
	for commands := range slices.Chunk(s.commands, mostBulk) {
		if err := enter(ctx, c, s.daemon, slices.Concat(start, s.enter[1:])...); err != nil {
			return nil, err
		}
		replies, err := put(ctx, c, s.daemon, commands)
		if err != nil {
			return nil, err
		}
		finish := []string{"XFRR_end_configuration", "end"}
		c.Stretch(commitTakes)
		ends, err := put(ctx, c, s.daemon, finish)
		c.Stretch(1)
		if err != nil {
			return nil, err
		}
		all = append(all, replies...)
		if err := errors.Join(refusal(s.daemon, commands, replies), refusal(s.daemon, finish, ends)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// put sends commands to the node that the session is in.
func put(ctx context.Context, c *vty.Client, daemon string, commands []string) ([]vty.Reply, error) {
	if daemon == mgmtd {
		return oneByOne(ctx, c, commands)
	}
	return c.Do(ctx, commands...)
}

// mgmtd is the daemon that configures zebra and staticd in FRR 10.
const mgmtd = "mgmtd"

// oneByOne sends a command only when the one before was answered. mgmtd commits each of them, and forgets
// what it was sent while it does: it never answers that (10.3).
func oneByOne(ctx context.Context, c *vty.Client, commands []string) ([]vty.Reply, error) {
	replies := make([]vty.Reply, 0, len(commands))
	for _, command := range commands {
		r, err := c.Do(ctx, command)
		if err != nil {
			return nil, err
		}
		replies = append(replies, r...)
	}
	return replies, nil
}

// orElse takes the second way where the first is missing or denied. A daemon that is there and does
// not answer would not answer on another way either.
func orElse(first, second talker) talker {
	return func(ctx context.Context, s session) ([]vty.Reply, error) {
		replies, err := first(ctx, s)
		if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
			return replies, err
		}
		replies, err2 := second(ctx, s)
		if err2 != nil {
			return nil, fmt.Errorf("%w; %w", err, err2)
		}
		return replies, nil
	}
}

// ask gives the replies of one session.
func ask(ctx context.Context, talk talker, daemon string, commands ...string) ([]vty.Reply, error) {
	replies, err := talk(ctx, session{daemon: daemon, commands: commands})
	if err == nil && len(replies) != len(commands) {
		err = routers.Errorf(routers.ErrUnavailable, "%s: %d replies to %d commands", daemon, len(replies), len(commands))
	}
	return replies, err
}

// tell puts a session of changes and sums up what was refused: the first refusal, and how many more.
func tell(ctx context.Context, talk talker, s session) error {
	if len(s.commands) == 0 {
		return nil
	}
	replies, err := talk(ctx, s)
	if err != nil {
		return err
	}
	var first error
	more := 0
	for i, r := range replies {
		switch err := r.Refused(s.commands[i]); {
		case err != nil && first == nil:
			first = err
		case err != nil:
			more++
		}
	}
	switch {
	case first == nil:
		return nil
	case more > 0:
		return fmt.Errorf("%s: %w (and %d more refused)", s.daemon, first, more)
	}
	return fmt.Errorf("%s: %w", s.daemon, first)
}

// family is "ip" or "ipv6", as FRR's commands begin.
func family(p netip.Prefix) string {
	if p.Addr().Is4() {
		return "ip"
	}
	return "ipv6"
}

func isIPv4(p netip.Prefix) bool { return p.Addr().Is4() }

func isIPv6(p netip.Prefix) bool { return !isIPv4(p) }

// abreast does all at once and waits for all. Whoever asks several daemons within one time thus learns
// what those know that are well, whichever of them hangs. The last is done by the caller's own thread,
// which may have rights and namespaces of its own.
func abreast(all ...func()) {
	var others sync.WaitGroup
	for i, do := range all {
		if i < len(all)-1 {
			others.Go(do)
		} else {
			do()
		}
	}
	others.Wait()
}
