package checktest

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
)

// A Datagram is one that came to a server.
type Datagram struct {
	net.PacketConn // the server's socket
	Bytes          []byte
	From           net.Addr
}

// Reply sends back to where the datagram came from.
func (d Datagram) Reply(b []byte) { _, _ = d.WriteTo(b, d.From) } // the asker may have gone

// ReplyFrom sends back from another port of the same host, as no server ought to.
func (d Datagram) ReplyFrom(tb testing.TB, b []byte) {
	host := d.LocalAddr().(*net.UDPAddr).IP.String()
	pc, err := net.ListenPacket("udp", net.JoinHostPort(host, "0"))
	if err != nil {
		tb.Errorf("no other udp port on %s: %v", host, err)
		return
	}
	defer pc.Close()
	_, _ = pc.WriteTo(b, d.From)
}

// UDP starts a server on host, such as "127.0.0.1", that calls answer for each datagram, one after the
// other. A nil answer never reads, like a process that hangs. It ends with the test.
func UDP(tb testing.TB, host string, answer func(Datagram)) netip.AddrPort {
	tb.Helper()
	pc, err := net.ListenPacket("udp", net.JoinHostPort(host, "0"))
	if err != nil {
		tb.Fatalf("no udp port on %s: %v", host, err)
	}
	var wg sync.WaitGroup
	tb.Cleanup(func() {
		pc.Close()
		wg.Wait()
	})
	if answer != nil {
		wg.Go(func() {
			buf := make([]byte, 1<<16)
			for {
				n, from, err := pc.ReadFrom(buf)
				if err != nil {
					return
				}
				answer(Datagram{PacketConn: pc, Bytes: slices.Clone(buf[:n]), From: from})
			}
		})
	}
	return pc.LocalAddr().(*net.UDPAddr).AddrPort()
}
