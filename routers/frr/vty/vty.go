// Package vty speaks to an FRR daemon over its vty socket, as FRR's own vtysh does, without a fork.
//
// The protocol has no handshake. A request is the text of a command and a NUL; the reply is text,
// three NULs and one byte of status. Replies come in order, so commands can be sent ahead. Seen on
// FRR 8.4.4 and 10.3.
package vty

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"vouch/routers"
)

const (
	// MaxReply is the longest reply taken, in bytes. A larger one is an error, as somebody asked for
	// a whole table where one prefix was meant.
	MaxReply = 16 << 20
	// maxCommand is the daemon's own limit of 4096 less the NUL: of a longer one it makes garbage.
	maxCommand = 4095
	// aheadCommands and aheadBytes bound what is sent before its replies are read. The bytes stay far
	// below a socket's buffer, so that a write does not wait for a daemon which itself waits to write.
	aheadCommands = 256
	aheadBytes    = 32 << 10
)

// The statuses of a reply that matter here (lib/command.h of FRR 8.4.4).
const (
	success = 0
	// locked is mgmtd's answer (FRR 10.3) while another session holds the configuration.
	locked = 255
)

// A Reply is what a daemon answered to one command. A Status of 0 is no proof that the thing asked
// for is so, and another none that it is not: only reading the table tells.
type Reply struct {
	Status uint8
	Text   string
}

// A Refusal is a reply whose status is not 0. It is of class routers.ErrBusy when another session
// holds the configuration, and of class routers.ErrRefused otherwise.
type Refusal struct {
	command string
	reply   Reply
}

// Error names the command, the status and what the daemon said.
func (r *Refusal) Error() string {
	text := strings.Join(strings.Fields(r.reply.Text), " ")
	if text == "" {
		text = "(it said nothing)"
	}
	return fmt.Sprintf("%q: status %d: %s", r.command, r.reply.Status, text)
}

// Unwrap gives the class.
func (r *Refusal) Unwrap() error {
	if r.reply.Status == locked || busy(r.reply.Text) {
		return routers.ErrBusy
	}
	return routers.ErrRefused
}

// busy tells whether a daemon or vtysh said that another session holds the configuration.
func busy(text string) bool {
	return strings.Contains(text, "could not lock") || strings.Contains(text, "locked by another session")
}

// Refused gives the *Refusal that a reply amounts to, or nil for status 0.
func (r Reply) Refused(command string) error {
	if r.Status == success {
		return nil
	}
	return &Refusal{command: command, reply: r}
}

// Check refuses a command that must never reach a daemon: an empty one, one over 4095 bytes, and one
// with a control character or a byte outside ASCII, as these could end one command and begin another.
func Check(command string) error {
	switch {
	case command == "":
		return errors.New("vty: empty command")
	case len(command) > maxCommand:
		return fmt.Errorf("vty: command of %d bytes: at most %d", len(command), maxCommand)
	}
	if i := strings.IndexFunc(command, func(r rune) bool { return r < ' ' || r > '~' }); i >= 0 {
		return fmt.Errorf("vty: command %q: character at byte %d is not printable ASCII", command, i)
	}
	return nil
}

// A Client is one session with a daemon. Its methods must not be called concurrently. After an error
// the session is of no more use.
type Client struct {
	conn    net.Conn
	daemon  string // for people
	in      *bufio.Reader
	timeout time.Duration
	times   time.Duration // that much of the timeout
	waits   time.Duration // for the reply that is awaited
	text    bytes.Buffer
}

// New makes a session of a connection, which it owns from then on. The timeout is how long the daemon
// may take for each reply; the context of a call may end it earlier. Errors name the daemon as its
// socket does.
func New(conn net.Conn, timeout time.Duration) *Client {
	daemon := strings.TrimSuffix(filepath.Base(conn.RemoteAddr().String()), suffix)
	return &Client{conn: conn, daemon: daemon, in: bufio.NewReaderSize(conn, 64<<10), timeout: timeout, times: 1}
}

// Stretch gives the daemon that many times its time for each reply from now on: for a command that is more
// work than others. 1 is as it was.
func (c *Client) Stretch(times int) { c.times = time.Duration(times) }

// Close ends the session.
func (c *Client) Close() error { return c.conn.Close() }

// Do sends the commands and gives their replies, in order; beside an error, those that came before it.
// Commands are sent ahead of the replies, so that they cost one journey together. It checks them all
// before it sends any. An error on the way, a late reply and a reply cut off are of class
// routers.ErrUnavailable; when ctx ended its cause is found too, and otherwise the system's error.
func (c *Client) Do(ctx context.Context, commands ...string) ([]Reply, error) {
	for _, cmd := range commands {
		if err := Check(cmd); err != nil {
			return nil, err
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	replies := make([]Reply, 0, len(commands))
	for len(replies) < len(commands) {
		n, batch := next(commands[len(replies):])
		if err := c.send(ctx, batch); err != nil {
			return replies, c.explain(ctx, commands[len(replies)], err)
		}
		for range n {
			r, err := c.receive(ctx)
			if err != nil {
				return replies, c.explain(ctx, commands[len(replies)], err)
			}
			replies = append(replies, r)
		}
	}
	return replies, nil
}

// next makes one text of the commands to send before their replies are read. Nothing is sent while
// replies are still due, so that the two ends never both wait to write.
func next(commands []string) (n int, batch []byte) {
	for _, cmd := range commands {
		if n > 0 && (n == aheadCommands || len(batch)+len(cmd) >= aheadBytes) {
			break
		}
		batch = append(append(batch, cmd...), 0)
		n++
	}
	return n, batch
}

func (c *Client) send(ctx context.Context, batch []byte) error {
	if err := c.extend(ctx); err != nil {
		return err
	}
	_, err := c.conn.Write(batch)
	return err
}

// extend gives the daemon its time anew. The deadline that the end of ctx sets is not to be lost, so
// ctx is looked at after the new one is set. Only a closed connection takes no deadline, and what was
// read from it before is still of use.
func (c *Client) extend(ctx context.Context) error {
	now := time.Now()
	c.waits = c.times * c.timeout
	_ = c.conn.SetDeadline(now.Add(c.waits))
	if end, ok := ctx.Deadline(); ok {
		c.waits = min(c.waits, end.Sub(now))
	}
	return ctx.Err()
}

// receive reads one reply: text, three NULs, the status. The text holds no NUL.
func (c *Client) receive(ctx context.Context) (Reply, error) {
	if err := c.extend(ctx); err != nil {
		return Reply{}, err
	}
	c.text.Reset()
	for {
		part, err := c.in.ReadSlice(0)
		if c.text.Len()+len(part) > MaxReply {
			return Reply{}, fmt.Errorf("a reply longer than %d MiB", MaxReply>>20)
		}
		c.text.Write(part)
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return Reply{}, err
		}
	}
	var end [3]byte
	if _, err := io.ReadFull(c.in, end[:]); err != nil {
		return Reply{}, err
	}
	if end[0] != 0 || end[1] != 0 {
		return Reply{}, fmt.Errorf("not the reply of a vty: % x after the first NUL", end)
	}
	return Reply{Status: end[2], Text: string(c.text.Bytes()[:c.text.Len()-1])}, nil
}

// explain says what became of the command that was to be answered next.
func (c *Client) explain(ctx context.Context, command string, err error) error {
	switch {
	case ctx.Err() != nil:
		return Silent(c.daemon, c.waits, context.Cause(ctx))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return Silent(c.daemon, c.waits, err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
		return routers.Errorf(errors.Join(routers.ErrUnavailable, err), "%s closed the connection before it had answered %q", c.daemon, command)
	}
	return routers.Errorf(routers.ErrUnavailable, "%s: %q: %w", c.daemon, command, err)
}

// leastWait is the shortest wait after which a daemon looks hung.
const leastWait = 10 * time.Millisecond

// Silent is the error of having waited so long for somebody, such as "ospfd". It is of class
// routers.ErrUnavailable and of its cause, which is that the time was over, or what else ended the wait.
func Silent(who string, waited time.Duration, cause error) error {
	class := errors.Join(routers.ErrUnavailable, cause)
	switch {
	case !errors.Is(cause, context.DeadlineExceeded) && !errors.Is(cause, os.ErrDeadlineExceeded):
		return routers.Errorf(class, "%s had not answered yet: %w", who, cause)
	case waited < leastWait:
		return routers.Errorf(class, "no time was left to ask %s", who)
	}
	return routers.Errorf(class, "%s does not answer within %s (hung?)", who, waited.Round(leastWait))
}
