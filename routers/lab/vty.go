package lab

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"time"
)

// Show asks one daemon one thing over its vty socket, without a fork, and gives the reply's text.
// A reply is text, three zero bytes, and a status byte; a status other than 0 is an error. Without
// a deadline in ctx it waits at most 10 s.
func (f *FRR) Show(ctx context.Context, daemon, command string) (string, error) {
	c, err := net.DialTimeout("unix", f.path(daemon+".vty"), time.Second)
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
	for _, line := range []string{"enable", command} {
		text, status, err := ask(c, line)
		switch {
		case err != nil:
			return text, fmt.Errorf("lab: %s of %s: %s: %w", daemon, f.node.name, line, err)
		case status != 0:
			return text, fmt.Errorf("lab: %s of %s: %s: status %d: %s", daemon, f.node.name, line, status, text)
		case line == command:
			return text, nil
		}
	}
	return "", nil
}

// ask sends one line and reads the reply to it.
func ask(c net.Conn, line string) (text string, status byte, err error) {
	if _, err := c.Write(append([]byte(line), 0)); err != nil {
		return "", 0, err
	}
	var got []byte
	buf := make([]byte, 64<<10)
	for {
		n, err := c.Read(buf)
		got = append(got, buf[:n]...)
		if end := bytes.Index(got, []byte{0, 0, 0}); end >= 0 && len(got) > end+3 {
			return string(got[:end]), got[end+3], nil
		}
		if err != nil {
			return string(got), 0, err
		}
	}
}
