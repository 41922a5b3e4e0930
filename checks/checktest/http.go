package checktest

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// HTTP starts a server on host, such as "127.0.0.1", for HTTP/1.1 and HTTP/2, over TLS unless conf is nil.
// Without TLS a client has to know beforehand that it speaks HTTP/2. It ends with the test, and leaves no
// handler behind: they are to return once their request's context ends.
func HTTP(tb testing.TB, host string, conf *tls.Config, handler http.Handler) netip.AddrPort {
	tb.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		tb.Fatalf("no tcp port on %s: %v", host, err)
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{Handler: handler, TLSConfig: conf.Clone(), Protocols: &protocols, ErrorLog: log.New(io.Discard, "", 0)}
	var wg sync.WaitGroup
	wg.Go(func() {
		if conf == nil {
			_ = s.Serve(ln)
		} else {
			_ = s.ServeTLS(ln, "", "")
		}
	})
	tb.Cleanup(func() {
		s.Close()
		wg.Wait()
	})
	return ln.Addr().(*net.TCPAddr).AddrPort()
}

// HTTP3 starts a server on host for HTTP/3 alone; each part of conf is as crypto/tls has it. It ends with the
// test.
func HTTP3(tb testing.TB, host string, conf *tls.Config, handler http.Handler) netip.AddrPort {
	tb.Helper()
	return QUIC(tb, host, http3.ConfigureTLSConfig(conf.Clone()), func(ln *quic.EarlyListener) {
		s := &http3.Server{Handler: handler}
		_ = s.ServeListener(ln)
		s.Close()
	})
}

// QUIC starts a server on host that leaves what it is sent to serve, in a goroutine of its own; serve is to
// return once its listener fails. It ends with the test.
func QUIC(tb testing.TB, host string, conf *tls.Config, serve func(*quic.EarlyListener)) netip.AddrPort {
	tb.Helper()
	pc, err := net.ListenPacket("udp", net.JoinHostPort(host, "0"))
	if err != nil {
		tb.Fatalf("no udp port on %s: %v", host, err)
	}
	pipe := &quic.Transport{Conn: plainPackets{pc}}
	ln, err := pipe.ListenEarly(conf, &quic.Config{HandshakeIdleTimeout: abandoned, MaxIdleTimeout: 10 * abandoned})
	if err != nil {
		tb.Fatalf("no QUIC on %s: %v", pc.LocalAddr(), err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { serve(ln) })
	tb.Cleanup(func() {
		ln.Close()
		pipe.Close()
		pc.Close()
		wg.Wait()
	})
	return pc.LocalAddr().(*net.UDPAddr).AddrPort()
}

// abandoned is when a handshake is given up whose client has gone, which sends nothing then; tests that count
// goroutines wait for it.
const abandoned = 2 * time.Second

// plainPackets leaves a socket's buffers as they are: quic-go complains where it may not enlarge them.
type plainPackets struct{ net.PacketConn }

func (plainPackets) SetReadBuffer(int) error  { return nil }
func (plainPackets) SetWriteBuffer(int) error { return nil }
