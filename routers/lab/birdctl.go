package lab

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Show asks the daemon one thing over its control socket, without a fork, and gives the lines of the
// reply with their codes. A reply with a code from 8000 on is an error. Without a deadline in ctx it
// waits at most 10 s. A command that changes something does so here too.
func (b *BIRD) Show(ctx context.Context, command string) (string, error) {
	c, err := net.DialTimeout("unix", b.Socket(), time.Second)
	if err != nil {
		return "", fmt.Errorf("lab: %w", err)
	}
	defer c.Close()
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(10 * time.Second)
	}
	if err := c.SetDeadline(deadline); err != nil {
		return "", fmt.Errorf("lab: %w", err)
	}
	in := bufio.NewReader(c)
	_, _, err = reply(in) // the greeting
	if err == nil {
		_, err = fmt.Fprintln(c, command)
	}
	var text string
	var code int
	if err == nil {
		text, code, err = reply(in)
	}
	if err == nil && code >= 8000 {
		err = fmt.Errorf("%s", strings.TrimSpace(text))
	}
	if err != nil {
		return text, fmt.Errorf("lab: %s of %s: %s: %w", b.name, b.node.name, command, err)
	}
	return text, nil
}

// reply reads up to the line that begins with a code and a space, and gives all lines and that code.
func reply(in *bufio.Reader) (text string, code int, err error) {
	var all strings.Builder
	for {
		line, err := in.ReadString('\n')
		all.WriteString(line)
		if err != nil {
			return all.String(), 0, err
		}
		if len(line) < 5 || line[4] != ' ' {
			continue
		}
		if code, err := strconv.Atoi(line[:4]); err == nil {
			return all.String(), code, nil
		}
	}
}

// Configure has the daemon load its configuration again and waits until that is in force. One that is
// refused is an error, which holds BIRD's words.
func (b *BIRD) Configure(ctx context.Context) error {
	if _, err := b.Show(ctx, "configure"); err != nil {
		return err
	}
	return Wait(ctx, b.name+" of "+b.node.name+" to have reconfigured", 5*time.Millisecond, func() (bool, error) {
		text, err := b.Show(ctx, "show status")
		return err == nil && !strings.Contains(text, "Reconfiguration in progress"), err
	})
}
