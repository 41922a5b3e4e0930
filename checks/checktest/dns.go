// Package checktest has real servers, on ports that nobody else has, that behave as servers do in
// the field: well, badly, or not at all. Tests of checks talk to them.
package checktest

import (
	"net"
	"net/netip"
	"testing"

	"github.com/miekg/dns"
)

// DNS starts a server on one port of host, such as "127.0.0.1", for UDP and for TCP; where a handler
// is nil that port is closed. It ends with the test. The handlers run concurrently.
func DNS(tb testing.TB, host string, udp, tcp dns.HandlerFunc) netip.AddrPort {
	tb.Helper()
	pc, ln := both(tb, host)
	if udp == nil {
		pc.Close()
	} else {
		serve(tb, &dns.Server{PacketConn: pc, Handler: udp})
	}
	if tcp == nil {
		ln.Close()
	} else {
		serve(tb, &dns.Server{Listener: ln, Handler: tcp})
	}
	return ln.Addr().(*net.TCPAddr).AddrPort()
}

// serve runs a server until the test ends, and waits for it.
func serve(tb testing.TB, s *dns.Server) {
	tb.Helper()
	up, ended := make(chan struct{}), make(chan error, 1)
	s.NotifyStartedFunc = func() { close(up) }
	go func() { ended <- s.ActivateAndServe() }()
	select {
	case <-up:
	case err := <-ended:
		tb.Fatalf("the dns server does not start: %v", err)
	}
	tb.Cleanup(func() {
		if err := s.Shutdown(); err != nil {
			tb.Errorf("the dns server does not stop: %v", err)
		}
		<-ended
	})
}

// Answer answers with rcode, and with one TXT record if that is NOERROR.
func Answer(rcode int) dns.HandlerFunc {
	return func(w dns.ResponseWriter, q *dns.Msg) { send(w, reply(q, rcode)) }
}

// Truncated answers that there is more than fits.
func Truncated() dns.HandlerFunc {
	return func(w dns.ResponseWriter, q *dns.Msg) {
		m := reply(q, dns.RcodeSuccess)
		m.Truncated, m.Answer = true, nil
		send(w, m)
	}
}

// Silent takes the question and says nothing.
func Silent() dns.HandlerFunc { return func(dns.ResponseWriter, *dns.Msg) {} }

// Change answers with NOERROR after f changed the answer.
func Change(f func(m *dns.Msg)) dns.HandlerFunc {
	return func(w dns.ResponseWriter, q *dns.Msg) {
		m := reply(q, dns.RcodeSuccess)
		f(m)
		send(w, m)
	}
}

// Bytes answers with what f makes of a good answer's bytes, which need be no DNS message.
func Bytes(f func(wire []byte) []byte) dns.HandlerFunc {
	return func(w dns.ResponseWriter, q *dns.Msg) {
		if wire, err := reply(q, dns.RcodeSuccess).Pack(); err == nil {
			_, _ = w.Write(f(wire)) // the asker may have gone
		}
	}
}

// Close ends the connection, which makes sense for tcp, and says nothing.
func Close() dns.HandlerFunc { return func(w dns.ResponseWriter, _ *dns.Msg) { w.Close() } }

// Elsewhere answers well, but from another port of the same host. Over UDP only.
func Elsewhere() dns.HandlerFunc {
	return func(w dns.ResponseWriter, q *dns.Msg) {
		wire, err := reply(q, dns.RcodeSuccess).Pack()
		if err != nil {
			return
		}
		host, _, err := net.SplitHostPort(w.LocalAddr().String())
		if err != nil {
			return
		}
		if pc, err := net.ListenPacket("udp", net.JoinHostPort(host, "0")); err == nil {
			defer pc.Close()
			_, _ = pc.WriteTo(wire, w.RemoteAddr())
		}
	}
}

// Each answers in all the ways given, one after the other.
func Each(hs ...dns.HandlerFunc) dns.HandlerFunc {
	return func(w dns.ResponseWriter, q *dns.Msg) {
		for _, h := range hs {
			h(w, q)
		}
	}
}

func reply(q *dns.Msg, rcode int) *dns.Msg {
	m := new(dns.Msg)
	m.SetRcode(q, rcode)
	if rcode == dns.RcodeSuccess && len(q.Question) == 1 {
		m.Answer = []dns.RR{&dns.TXT{
			Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeTXT, Class: q.Question[0].Qclass, Ttl: 1},
			Txt: []string{"checktest"},
		}}
	}
	return m
}

func send(w dns.ResponseWriter, m *dns.Msg) { _ = w.WriteMsg(m) } // the asker may have gone
