package main

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
	"time"

	"vouch/routers/frr/vty"
	"vouch/routers/lab"
)

// answerWithin is how long a daemon may take for an answer.
const answerWithin = time.Second

// query asks FRR one thing: over the vty socket, in a session that stays and in one made for it as
// the driver does, and by a vtysh that is forked for it.
func (b *bench) query(ctx context.Context, r *report) (err error) {
	n, err := open(ctx, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	if err := n.byHand(ctx, n.node.Node, "add", n.Prefixes); err != nil {
		return err
	}
	for _, q := range []struct{ daemon, command string }{
		{"zebra", "show ip route " + lab.Service.String() + " json"},
		{"ospfd", "show ip ospf neighbor json"},
	} {
		if err := b.ask(ctx, r, n.node.FRR.SocketDir(), q.daemon, q.command); err != nil {
			return err
		}
	}
	return nil
}

// ask measures one question.
func (b *bench) ask(ctx context.Context, r *report, dir, daemon, command string) error {
	session, err := enable(ctx, dir, daemon)
	if err != nil {
		return err
	}
	defer session.Close()
	many := 50 * b.runs
	kept, err := timed(many, syscall.RUSAGE_SELF, func() error { return put(ctx, session, command) })
	if err != nil {
		return err
	}
	fresh, err := timed(many, syscall.RUSAGE_SELF, func() error {
		c, err := enable(ctx, dir, daemon)
		if err != nil {
			return err
		}
		return errors.Join(put(ctx, c, command), c.Close())
	})
	if err != nil {
		return err
	}
	forked, err := timed(2*b.runs, syscall.RUSAGE_CHILDREN, func() error {
		return exec.CommandContext(ctx, "vtysh", "--vty_socket", dir, "--config_dir", dir, "-d", daemon, "-c", command).Run()
	})
	if err != nil {
		return err
	}
	r.instead(r.add(command+", session kept", "ms", kept.Wall), "forked vtysh -d "+daemon+" -c", forked.Wall)
	r.instead(r.add(command+", session of its own", "ms", fresh.Wall), "forked vtysh -d "+daemon+" -c", forked.Wall)
	r.instead(r.add("  processor time of that", "ms CPU", fresh.each()), "forked vtysh", forked.each())
	return nil
}

// enable opens a session with a daemon, with the right to see all.
func enable(ctx context.Context, dir, daemon string) (*vty.Client, error) {
	conn, err := vty.Dial(ctx, dir, daemon)
	if err != nil {
		return nil, err
	}
	c := vty.New(conn, answerWithin)
	return c, put(ctx, c, "enable")
}

// put gives one command and wants it taken.
func put(ctx context.Context, c *vty.Client, command string) error {
	replies, err := c.Do(ctx, command)
	if err != nil {
		return err
	}
	return replies[0].Refused(command)
}
