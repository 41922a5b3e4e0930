package checktest

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"testing"
)

// TCP starts a server on host, such as "127.0.0.1", that calls serve for each connection, in a
// goroutine of its own, and closes the connection when serve returns. A nil serve never accepts, like
// a process that hangs. It ends with the test: serve is to return soon once its connection fails.
func TCP(tb testing.TB, host string, serve func(net.Conn)) netip.AddrPort {
	tb.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		tb.Fatalf("no tcp port on %s: %v", host, err)
	}
	if serve == nil {
		tb.Cleanup(func() { ln.Close() })
		return ln.Addr().(*net.TCPAddr).AddrPort()
	}
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[conn] = true
			mu.Unlock()
			wg.Go(func() {
				defer func() {
					conn.Close()
					mu.Lock()
					defer mu.Unlock()
					delete(open, conn)
				}()
				serve(conn)
			})
		}
	})
	tb.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for conn := range open {
			conn.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return ln.Addr().(*net.TCPAddr).AddrPort()
}

// Reset ends a connection so that the other side sees a reset, not an end.
func Reset(conn net.Conn) {
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	conn.Close()
}

// Closed gives an address of host on which nobody listens, over TCP and over UDP. Nobody will who leaves the choice of
// the port to the kernel, as other tests do meanwhile.
func Closed(tb testing.TB, host string) netip.AddrPort {
	tb.Helper()
	pc, ln := both(tb, host)
	pc.Close()
	ln.Close()
	return ln.Addr().(*net.TCPAddr).AddrPort()
}

// unchosen is the first of the ports above those that Linux chooses from (sysctl net.ipv4.ip_local_port_range).
const unchosen = 61000

// both listens on one port of host, for UDP and for TCP. It stays that of the test when one of them is closed.
func both(tb testing.TB, host string) (pc net.PacketConn, ln net.Listener) {
	tb.Helper()
	var err error
	for range 500 {
		at := net.JoinHostPort(host, strconv.Itoa(unchosen+rand.N(1<<16-unchosen)))
		if pc, err = net.ListenPacket("udp", at); err != nil {
			continue
		}
		if ln, err = net.Listen("tcp", at); err == nil {
			return pc, ln
		}
		pc.Close()
	}
	tb.Fatalf("no port on %s that is free for udp and tcp: %v", host, err)
	return nil, nil
}
