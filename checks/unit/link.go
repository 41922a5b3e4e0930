package unit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"
)

const (
	// patience bounds what no caller gives a time for: to connect, and to write.
	patience = 5 * time.Second
	// callsMax is how many calls may be without an answer on a connection. dbus-daemon lets it have 128
	// (max_replies_per_connection), and one that its caller has given up counts on.
	callsMax = 60
)

var errLost = errors.New("the connection to the system bus was lost")

// A link is one connection to the bus. The bus guards users.
type link struct {
	conn  *dbus.Conn
	pipe  *pipe
	users int
	calls chan struct{} // holds one for each call without an answer

	mu         sync.Mutex
	doubted    time.Time // since when calls were given up and none was answered; zero: not so
	ears       map[*ear]bool
	subscribed bool // systemd tells of changes

	matching chan struct{}  // holds one while match rules are changed
	matches  map[string]int // how many want each rule
}

// dial connects, says who we are, and is let in.
func dial(ctx context.Context, path string) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	l := &link{pipe: newPipe(raw), calls: make(chan struct{}, callsMax), ears: map[*ear]bool{},
		matching: make(chan struct{}, 1), matches: map[string]int{}}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	if l.conn, err = dbus.NewConn(l.pipe, dbus.WithSignalHandler(l), dbus.WithIncomingInterceptor(l.heard)); err != nil {
		stop()
		l.pipe.Close()
		return nil, err
	}
	err = l.conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Geteuid()))})
	if err == nil {
		err = l.conn.Hello()
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		l.conn.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return l, nil
}

func (l *link) broken() bool { return l.pipe.over() }

// A call is one that was begun, or could not be.
type call struct {
	link *link
	sent *dbus.Call
	err  error
}

// send begins a call. It waits, no longer than ctx, while too many are without an answer.
func (l *link) send(ctx context.Context, to string, path dbus.ObjectPath, method string, args ...any) call {
	select {
	case l.calls <- struct{}{}:
	case <-l.pipe.ended:
		return call{err: errLost}
	case <-ctx.Done():
		return call{err: ctx.Err()}
	}
	// It is sent even when ctx has ended, for it was counted.
	return call{link: l, sent: l.conn.Object(to, path).Go(method, dbus.FlagNoAutoStart, make(chan *dbus.Call, 1), args...)}
}

// get begins to read a property of a unit.
func (l *link) get(ctx context.Context, unit, iface, property string) call {
	return l.send(ctx, systemd, pathOf(unit), properties+".Get", iface, property)
}

// list begins to ask for how a unit is.
func (l *link) list(ctx context.Context, unit string) call {
	return l.send(ctx, systemd, managerPath, managerName+".ListUnitsByNames", []string{unit})
}

// store ends a call, and takes no longer than ctx.
func (c call) store(ctx context.Context, to ...any) error {
	if c.err != nil {
		return c.err
	}
	select {
	case <-c.sent.Done:
		return c.sent.Store(to...)
	case <-ctx.Done():
		c.drop()
		c.link.doubt(time.Now())
		return ctx.Err()
	}
}

// drop ends a call without waiting. One that ended may be dropped too.
func (c call) drop() {
	if c.sent != nil {
		c.sent.ContextCancel()
	}
}

// heard counts an answer. It is called by the goroutine that reads the connection.
func (l *link) heard(m *dbus.Message) {
	if m.Type != dbus.TypeMethodReply && m.Type != dbus.TypeError {
		return
	}
	select {
	case <-l.calls:
	default: // it answers nothing that was counted
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doubted = time.Time{}
}

// doubt notes that a call was given up. One that the bus is slow to answer harms nobody and may be answered
// yet; where none was answered for long the connection is ended, so that another takes its place.
func (l *link) doubt(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.doubted.IsZero():
		l.doubted = now
	case now.Sub(l.doubted) >= patience:
		l.pipe.Conn.Close()
	}
}

// pathOf gives the object that stands for a unit, by its name or by an alias: each byte that is neither a
// letter nor a digit is escaped, as is a digit in front.
func pathOf(unit string) dbus.ObjectPath {
	var b strings.Builder
	b.WriteString(unitsPath + "/")
	for i, c := range []byte(unit) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || i > 0 && c >= '0' && c <= '9' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return dbus.ObjectPath(b.String())
}
