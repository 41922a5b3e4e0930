// Package systemd speaks to the service manager: readiness, status and watchdog by sd_notify(3), and
// the log, by the journal's native protocol or as text.
package systemd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-systemd/v22/daemon"
)

const (
	// notifyPatience bounds one datagram: a service manager that does not read must not hold up a withdraw.
	notifyPatience = 500 * time.Millisecond
	// statusMax is the longest STATUS= text, in bytes: one line of "systemctl status".
	statusMax = 200
)

// A Notifier tells the service manager how the agent is. Without NOTIFY_SOCKET it does nothing and
// reports no error. Its methods may be called concurrently; each returns within half a second.
type Notifier struct {
	socket string // a path, or @name in the abstract namespace; empty: nobody to tell
}

// NewNotifier gives a Notifier for the socket named in NOTIFY_SOCKET.
func NewNotifier() *Notifier { return &Notifier{socket: os.Getenv("NOTIFY_SOCKET")} }

// Ready says that start-up, or a reload, is complete.
func (n *Notifier) Ready() error { return n.send(daemon.SdNotifyReady) }

// Reloading says that a reload begins; Ready ends it. It carries the monotonic time, which
// Type=notify-reload (systemd 253) needs to tell this reload from an earlier one.
func (n *Notifier) Reloading() error {
	return n.send(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
}

// Stopping says that the agent has begun to stop.
func (n *Notifier) Stopping() error { return n.send(daemon.SdNotifyStopping) }

// Status sets the line that "systemctl status" shows. The text may hold anything: it is made one
// line, control characters are escaped, and it is cut at 200 bytes.
func (n *Notifier) Status(text string) error { return n.send("STATUS=" + oneLine(text, statusMax)) }

// ExtendTimeout asks that the start or stop under way may take d from now, whatever the unit says.
func (n *Notifier) ExtendTimeout(d time.Duration) error {
	return n.send(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", d.Microseconds()))
}

// Alive is the watchdog's ping.
func (n *Notifier) Alive() error { return n.send(daemon.SdNotifyWatchdog) }

// Hung asks for what WatchdogSec's end would bring, now: systemd 243 and later.
func (n *Notifier) Hung() error { return n.send("WATCHDOG=trigger") }

// send is daemon.SdNotify with a deadline, which that function does not have.
func (n *Notifier) send(state string) error {
	if n.socket == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify the service manager at %s: %w", n.socket, err)
	}
	_ = c.SetWriteDeadline(time.Now().Add(notifyPatience))
	_, err = c.Write([]byte(state))
	if err = errors.Join(err, c.Close()); err != nil {
		return fmt.Errorf("notify the service manager at %s: %w", n.socket, err)
	}
	return nil
}

// oneLine makes any text a single printable line of valid UTF-8, at most limit bytes long.
func oneLine(s string, limit int) string {
	const more = "…"
	out := escape(s)
	if len(out) <= limit {
		return out
	}
	cut := limit - len(more)
	for cut > 0 && !utf8.RuneStart(out[cut]) {
		cut--
	}
	return out[:cut] + more
}

// escape writes what is not printable as Go writes it in a string: \n, \x00, \u2028.
func escape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(fmt.Sprintf("%+q", r), "'"))
		}
		i += n
	}
	return b.String()
}
