package unit

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// socket is where the system bus is (D-Bus specification, "System message bus").
const socket = "/run/dbus/system_bus_socket"

// A bus shares one connection among all that ask or watch, for a user may have only so many of them (256).
// The connection is there while somebody uses it.
type bus struct {
	socket  func() (string, error)
	uptime  func() time.Duration // the clock of systemd's monotonic timestamps
	dialing chan struct{}        // holds one while somebody connects
	mu      sync.Mutex
	open    *link
	desks   map[string]*desk // by unit
}

// shared is the one of this process.
var shared = newBus(systemSocket)

func newBus(socket func() (string, error)) *bus {
	return &bus{socket: socket, uptime: sinceBoot, dialing: make(chan struct{}, 1), desks: map[string]*desk{}}
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
