package routertest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// A Proxy stands between a driver and the unix sockets of a daemon. It hears what the driver asks, and
// can break the connection off after any byte of what the daemon answers. It was made for protocols of
// requests that each end with the same byte, as FRR's vty (NUL) and BIRD's control socket (newline) are.
// Its methods may be called concurrently.
type Proxy struct {
	dir       string
	end       byte // of a request
	listeners []net.Listener
	done      sync.WaitGroup

	mu       sync.Mutex
	conns    map[net.Conn]bool
	closed   bool
	requests []string
	dials    int
	passed   int // bytes of replies since the last Cut
	cut      int // after how many of them; negative: never
	dead     bool
	stays    bool
}

// NewProxy listens in dir, under the name that each of the sockets has in its own directory. What the
// driver sends is taken apart at the byte that ends a request.
func NewProxy(dir string, end byte, sockets ...string) (*Proxy, error) {
	p := &Proxy{dir: dir, end: end, conns: map[net.Conn]bool{}, cut: -1}
	for _, s := range sockets {
		path := filepath.Join(dir, filepath.Base(s))
		l, err := net.Listen("unix", path)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("routertest: %w", err), p.Close())
		}
		p.listeners = append(p.listeners, l)
		if info, err := os.Stat(s); err == nil { // a socket's age tells for how long a daemon has run
			_ = os.Chtimes(path, time.Time{}, info.ModTime())
		}
		p.done.Go(func() { p.accept(l, s) })
	}
	return p, nil
}

// Dir is where the proxy's sockets are.
func (p *Proxy) Dir() string { return p.dir }

// Close ends all connections and waits for what serves them.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.drop()
	p.mu.Unlock()
	var errs []error
	for _, l := range p.listeners {
		errs = append(errs, l.Close())
	}
	p.done.Wait()
	return errors.Join(errs...)
}

// Cut lets n more bytes of replies through, of all connections together, and then ends the connection
// on which the next one comes. When stays is true all others end then too, and new ones at once, until
// Mend.
func (p *Proxy) Cut(n int, stays bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passed, p.cut, p.stays, p.dead = 0, n, stays, false
}

// Mend takes the last Cut back, and says whether a reply was cut, or the daemon could not be reached.
func (p *Proxy) Mend() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.dead
	p.cut, p.dead = -1, false
	return was
}

// Passed is how many bytes of replies were let through since the last Cut.
func (p *Proxy) Passed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.passed
}

// Traffic gives the requests since the last call, and how many connections were made for them.
func (p *Proxy) Traffic() (requests []string, dials int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	requests, dials = p.requests, p.dials
	p.requests, p.dials = nil, 0
	return requests, dials
}

func (p *Proxy) accept(l net.Listener, socket string) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		p.done.Go(func() { p.serve(client, socket) })
	}
}

// serve connects the client with the daemon until one of them ends it.
func (p *Proxy) serve(client net.Conn, socket string) {
	defer client.Close()
	if !p.add(client) {
		return
	}
	defer p.forget(client)
	p.mu.Lock()
	p.dials++
	p.mu.Unlock()
	daemon, err := net.Dial("unix", socket)
	if err != nil { // it is away, or its queue is full
		p.mu.Lock()
		p.dead = true
		p.mu.Unlock()
		return
	}
	if !p.add(daemon) {
		return
	}
	defer p.forget(daemon)
	p.done.Go(func() { p.listen(client, daemon) })
	buf := make([]byte, 64<<10)
	for {
		n, err := daemon.Read(buf)
		whole := p.pass(client, buf[:n])
		if err != nil || !whole {
			_ = daemon.Close()
			return
		}
	}
}

// listen passes the client's requests on, and notes them. When the client ends, so does the daemon's
// side.
func (p *Proxy) listen(client, daemon net.Conn) {
	defer daemon.Close()
	var open []byte
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		open = p.note(append(open, buf[:n]...))
		if _, werr := daemon.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

// note records the whole requests in b and gives the rest.
func (p *Proxy) note(b []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		i := bytes.IndexByte(b, p.end)
		if i < 0 {
			return b
		}
		p.requests = append(p.requests, strings.TrimSpace(string(b[:i])))
		b = b[i+1:]
	}
}

// pass gives the client what the cut lets through, and says whether that was all.
func (p *Proxy) pass(client net.Conn, b []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	whole := true
	if p.dead && p.stays {
		return false
	}
	if p.cut >= 0 && !p.dead && p.passed+len(b) > p.cut {
		b, whole = b[:p.cut-p.passed], false
	}
	p.passed += len(b)
	_, err := client.Write(b)
	if !whole {
		p.dead = true
		if p.stays {
			p.drop()
		}
	}
	return whole && err == nil
}

// add takes a connection in, or says that it has to end.
func (p *Proxy) add(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.dead && p.stays {
		_ = c.Close()
		return false
	}
	p.conns[c] = true
	return true
}

func (p *Proxy) forget(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	_ = c.Close()
}

// drop ends all connections. p.mu is held.
func (p *Proxy) drop() {
	for c := range p.conns {
		_ = c.Close()
	}
}

// proxied makes a proxy for a test's life in a directory of its own, whose path is short as that of a
// unix socket has to be.
func proxied(w *Wire) (p *Proxy, closing func() error, err error) {
	dir, err := os.MkdirTemp("", "vrt")
	if err != nil {
		return nil, nil, fmt.Errorf("routertest: %w", err)
	}
	p, err = NewProxy(dir, w.End, w.Sockets...)
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return p, func() error { return errors.Join(p.Close(), os.RemoveAll(dir)) }, nil
}
