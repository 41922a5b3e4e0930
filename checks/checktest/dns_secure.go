package checktest

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"testing"

	"github.com/miekg/dns"
)

// DNSOverTLS starts a server for DNS over TLS (RFC 7858) on host, such as "127.0.0.1". It ends with the test.
func DNSOverTLS(tb testing.TB, host string, conf *tls.Config, h dns.HandlerFunc) netip.AddrPort {
	tb.Helper()
	ln, err := tls.Listen("tcp", net.JoinHostPort(host, "0"), conf)
	if err != nil {
		tb.Fatalf("no port for tls on %s: %v", host, err)
	}
	serve(tb, &dns.Server{Listener: ln, Handler: h})
	return ln.Addr().(*net.TCPAddr).AddrPort()
}

// DNSOverHTTPS starts a server for HTTP/2 and HTTP/1.1 on host that leaves all paths to h, such as Message. It ends
// with the test, and with it each connection and the context of each request.
func DNSOverHTTPS(tb testing.TB, host string, conf *tls.Config, h http.HandlerFunc) netip.AddrPort {
	tb.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		tb.Fatalf("no port for https on %s: %v", host, err)
	}
	s := &http.Server{Handler: h, TLSConfig: conf.Clone(), ErrorLog: log.New(io.Discard, "", 0)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.ServeTLS(ln, "", "") // that it is closed
	}()
	tb.Cleanup(func() {
		s.Close()
		<-ended
	})
	return ln.Addr().(*net.TCPAddr).AddrPort()
}

// Message answers requests for DNS over HTTPS (RFC 8484) as h answers questions; with nothing, if h says nothing.
func Message(h dns.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, dns.MaxMsgSize))
		q := new(dns.Msg)
		if err != nil || q.Unpack(body) != nil {
			http.Error(w, "no DNS message", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/dns-message")
		h(httpsWriter{to: w}, q)
	}
}

// httpsWriter is a dns.ResponseWriter whose message is the body of a response.
type httpsWriter struct {
	dns.ResponseWriter // what is not made below is not called
	to                 http.ResponseWriter
}

func (w httpsWriter) WriteMsg(m *dns.Msg) error {
	wire, err := m.Pack()
	if err == nil {
		_, err = w.to.Write(wire)
	}
	return err
}

func (w httpsWriter) Write(b []byte) (int, error) { return w.to.Write(b) }

// Close breaks the connection off.
func (w httpsWriter) Close() error { panic(http.ErrAbortHandler) }

// HTTP2 serves a connection in HTTP/2 as far as a request has been read, and leaves the rest to then.
func HTTP2(then func(net.Conn)) func(*tls.Conn) {
	return func(conn *tls.Conn) {
		if Frame(conn, 4, 0, 0, nil) != nil { // SETTINGS
			return
		}
		if _, err := io.ReadFull(conn, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
			return
		}
		for {
			var head [9]byte
			if _, err := io.ReadFull(conn, head[:]); err != nil {
				return
			}
			size := int64(binary.BigEndian.Uint32(append([]byte{0}, head[:3]...)))
			if _, err := io.CopyN(io.Discard, conn, size); err != nil {
				return
			}
			if head[3] == 0 && head[4]&1 != 0 { // DATA that ends the stream
				then(conn)
				return
			}
		}
	}
}

// Frame writes a frame of HTTP/2 (RFC 9113, section 4.1).
func Frame(w io.Writer, kind, flags byte, stream uint32, payload []byte) error {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload)))[1:]
	b = binary.BigEndian.AppendUint32(append(b, kind, flags), stream)
	_, err := w.Write(append(b, payload...))
	return err
}
