package dns

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"

	"vouch/checks"
	"vouch/checks/checktest"
)

// A check from the node's own address sees that answers do not find back to it, which one from an address that is next
// to the server does not.
func TestReturnPathIsBroken(t *testing.T) {
	node, far := checktest.NewSpace(t), checktest.NewSpace(t)
	checktest.Link(node, far, "eth0", "eth0", 1500, 1500, []string{"10.0.0.1/24"}, []string{"10.0.0.2/24"})
	node.IP("addr add 198.51.100.1/32 dev lo")
	var at netip.AddrPort
	far.Do(func() { at = checktest.DNS(t, "10.0.0.2", ok, ok) })
	ask := func(server, source string, d time.Duration) (err error) {
		node.Do(func() { err = probeFor(t, Spec{Server: server, Origin: checks.Origin{Source: source}}, d) })
		return err
	}
	want(t, ask(at.String(), "10.0.0.1", 5*time.Second), "")
	want(t, ask(at.String(), "198.51.100.1", 2*time.Second), checks.ReasonTimeout, "timeout after 2s (sent from 198.51.100.1, 0 of 1 replies)")
	want(t, ask("203.0.113.1:53", "", 5*time.Second), checks.ReasonUnreachable)
	far.IP("route add 198.51.100.1/32 via 10.0.0.1")
	want(t, ask(at.String(), "198.51.100.1", 5*time.Second), "")
	node.IP("route add blackhole 203.0.113.1/32")
	want(t, ask("203.0.113.1:53", "", 5*time.Second), checks.ReasonUnreachable)
}

// everywhere listens at all addresses, on one port for udp and tcp.
func everywhere(t *testing.T) (net.PacketConn, net.Listener) {
	t.Helper()
	for range 50 {
		pc, err := net.ListenPacket("udp4", "0.0.0.0:0")
		if err != nil {
			t.Fatal(err)
		}
		ln, err := net.ListenTCP("tcp4", &net.TCPAddr{Port: pc.LocalAddr().(*net.UDPAddr).Port})
		if err == nil {
			return pc, ln
		}
		pc.Close() // somebody has the port for tcp
	}
	t.Fatal("no port that is free for udp and tcp")
	return nil, nil
}

// A server on a wildcard socket answers from whatever address the kernel likes best. Over UDP that is no reply;
// over TCP nothing is amiss: the two are checks of their own.
func TestAnswerFromAnotherAddress(t *testing.T) {
	pc, ln := everywhere(t)
	port := ln.Addr().(*net.TCPAddr).Port
	answer := dns.HandlerFunc(ok)
	udp, tcp := wildcard{pc}, &dns.Server{Listener: ln, Handler: answer}
	ended := make(chan struct{}, 2)
	go func() { udp.serve(); ended <- struct{}{} }()
	go func() { _ = tcp.ActivateAndServe(); ended <- struct{}{} }()
	t.Cleanup(func() {
		pc.Close()
		ln.Close()
		<-ended
		<-ended
	})
	main := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(port)).String()
	second := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.53"), uint16(port)).String()
	origin := checks.Origin{Source: "127.0.0.9"}
	want(t, probe(t, Spec{Server: main, Origin: origin}), "")
	want(t, probeFor(t, Spec{Server: second, Origin: origin}, 2*time.Second), checks.ReasonTimeout, "(sent from 127.0.0.9, 0 of 1 replies)")
	want(t, probe(t, Spec{Server: second, Origin: origin, Proto: "tcp"}), "")
}

// A wildcard answers without regard to the address that it was asked at, as simple servers do.
type wildcard struct{ net.PacketConn }

func (w wildcard) serve() {
	buf := make([]byte, 4096)
	for {
		n, from, err := w.ReadFrom(buf)
		if err != nil {
			return
		}
		q, m := new(dns.Msg), new(dns.Msg)
		if q.Unpack(buf[:n]) == nil {
			if wire, err := m.SetReply(q).Pack(); err == nil {
				_, _ = w.WriteTo(wire, from)
			}
		}
	}
}

// A reply that comes too late is none, also for the round after: it has another socket, and another id.
func TestLateReply(t *testing.T) {
	held := make(chan func(), 1)
	at := checktest.DNS(t, "127.0.0.1", func(w dns.ResponseWriter, q *dns.Msg) {
		select {
		case late := <-held: // the second question: the first one's answer comes now
			late()
		default:
			held <- func() { ok(w, q) }
		}
	}, nil)
	s := Spec{Server: at.String()}
	want(t, probeFor(t, s, time.Second), checks.ReasonTimeout)
	want(t, probeFor(t, s, time.Second), checks.ReasonTimeout, "0 of 1 replies")
}

// The text of a failure is the same from round to round, since each change of it is told.
func TestTextIsStable(t *testing.T) {
	closed := checktest.Closed(t, "127.0.0.1").String()
	silent := checktest.DNS(t, "127.0.0.1", checktest.Each(wrongID, wrongQ), checktest.Silent()).String()
	cut := checktest.DNS(t, "127.0.0.1", checktest.Truncated(), checktest.Silent()).String()
	for _, s := range []Spec{{Server: closed}, {Server: closed, Proto: "tcp"}, {Server: silent}, {Server: silent, Proto: "tcp"}, {Server: cut},
		{Server: silent, RandomLabel: true, Name: "example.net"}} {
		first, second := probeFor(t, s, time.Second), probeFor(t, s, time.Second)
		if first == nil || second == nil || first.Error() != second.Error() {
			t.Errorf("%s: once %v, once %v", s.Proto, first, second)
		}
	}
}

// A second try that does not connect is told by the time of the whole check, not by what was left of it.
func TestNoConnection(t *testing.T) {
	late := &checks.Failure{Reason: checks.ReasonTimeout, Detail: "no connection within 790ms"}
	want(t, within("1s", late), checks.ReasonTimeout, "no connection within 1s")
	refused := &checks.Failure{Reason: checks.ReasonRefused, Detail: "x"}
	if got := within("1s", refused); got != error(refused) {
		t.Errorf("got %v", got)
	}
}
