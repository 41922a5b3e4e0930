package unit

import (
	"bufio"
	"context"
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
	// socket is where the system bus is (D-Bus specification, "System message bus").
	socket = "/run/dbus/system_bus_socket"
	// patience bounds a call, a connection and a write where the caller gives no time, as a watch.
	patience = 5 * time.Second
)

// A bus shares one connection among all that ask or watch, for a user may have only so many of them (256).
// The connection is there while somebody uses it.
type bus struct {
	socket  func() (string, error)
	dialing chan struct{} // holds one while somebody connects
	mu      sync.Mutex
	open    *link
}

// shared is the one of this process.
var shared = newBus(systemSocket)

func newBus(socket func() (string, error)) *bus {
	return &bus{socket: socket, dialing: make(chan struct{}, 1)}
}

// systemSocket gives the system bus's socket, which the environment may name as for any program.
func systemSocket() (string, error) {
	address := os.Getenv("DBUS_SYSTEM_BUS_ADDRESS")
	if address == "" {
		return socket, nil
	}
	first, _, _ := strings.Cut(address, ";")
	path, ok := strings.CutPrefix(first, "unix:path=")
	path, _, _ = strings.Cut(path, ",")
	if !ok || path == "" {
		return "", fmt.Errorf("DBUS_SYSTEM_BUS_ADDRESS=%s is not understood: write unix:path=%s, or leave it unset", address, socket)
	}
	return path, nil
}

// acquire gives the connection, and makes it if there is none. It must be released.
func (b *bus) acquire(ctx context.Context) (*link, error) {
	if l := b.take(); l != nil {
		return l, nil
	}
	select {
	case b.dialing <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-b.dialing }()
	if l := b.take(); l != nil {
		return l, nil
	}
	path, err := b.socket()
	if err != nil {
		return nil, err
	}
	l, err := dial(ctx, path)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open, l.users = l, 1
	return l, nil
}

// take gives the connection if there is one that lives.
func (b *bus) take() *link {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == nil || b.open.broken() {
		return nil
	}
	b.open.users++
	return b.open
}

// release gives the connection back. The last one closes it.
func (b *bus) release(l *link) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l.users--
	if l.users > 0 {
		return
	}
	if b.open == l {
		b.open = nil
	}
	l.conn.Close()
}

// A link is one connection to the bus. The bus guards users.
type link struct {
	conn  *dbus.Conn
	pipe  *pipe
	users int

	mu   sync.Mutex
	ears map[*ear]bool

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
	l := &link{pipe: newPipe(raw), ears: map[*ear]bool{},
		matching: make(chan struct{}, 1), matches: map[string]int{}}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	if l.conn, err = dbus.NewConn(l.pipe, dbus.WithSignalHandler(l)); err != nil {
		stop()
		raw.Close()
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

func (l *link) broken() bool {
	select {
	case <-l.pipe.ended:
		return true
	default:
		return false
	}
}

// send begins a call to systemd.
func (l *link) send(ctx context.Context, path dbus.ObjectPath, method string, args ...any) *dbus.Call {
	return l.conn.Object(systemd, path).GoWithContext(ctx, method, dbus.FlagNoAutoStart, make(chan *dbus.Call, 1), args...)
}

// get begins to read a property of a unit.
func (l *link) get(ctx context.Context, unit, iface, property string) *dbus.Call {
	return l.send(ctx, pathOf(unit), properties+".Get", iface, property)
}

// await ends a call. It takes no longer than the call's context.
func await(call *dbus.Call) *dbus.Call { return <-call.Done }

// pathOf gives the object that stands for a unit, by its name or by an alias: each byte that is neither a
// letter nor a digit is escaped, as is a digit in front.
func pathOf(unit string) dbus.ObjectPath {
	var b strings.Builder
	b.WriteString(string(managerPath) + "/unit/")
	for i, c := range []byte(unit) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || i > 0 && c >= '0' && c <= '9' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return dbus.ObjectPath(b.String())
}

// A pipe is what the connection reads from and writes to. It knows when that has ended, and no write waits
// for ever.
type pipe struct {
	net.Conn
	in    *bufio.Reader
	read  sync.Mutex // held while somebody reads
	once  sync.Once
	ended chan struct{} // closed when nothing more can be read
}

func newPipe(c net.Conn) *pipe {
	return &pipe{Conn: c, in: bufio.NewReader(c), ended: make(chan struct{})}
}

// Read reads.
func (p *pipe) Read(b []byte) (int, error) {
	p.read.Lock()
	defer p.read.Unlock()
	n, err := p.in.Read(b)
	if err != nil {
		p.end()
	}
	return n, err
}

// Write writes all, or ends the connection: after a part of a message nothing would be understood.
func (p *pipe) Write(b []byte) (int, error) {
	if err := p.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	n, err := p.Conn.Write(b)
	if err != nil {
		p.Conn.Close()
	}
	return n, err
}

// Close closes it. Then nobody waits in Read any more.
func (p *pipe) Close() error {
	p.end()
	err := p.Conn.Close()
	p.read.Lock()
	defer p.read.Unlock()
	return err
}

func (p *pipe) end() { p.once.Do(func() { close(p.ended) }) }
