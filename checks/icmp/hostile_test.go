package icmp

import (
	"encoding/binary"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"

	"vouch/checks"
	"vouch/checks/checktest"
)

// respond answers a space's pings in its place until the function that it gives is called: what answer makes of
// each request that comes to Far4 is sent from the other address.
func respond(t *testing.T, in *checktest.Space, from string, answer func(q icmp.Echo) []icmp.Message) (stop func()) {
	t.Helper()
	in.Sysctl("ipv4/icmp_echo_ignore_all", "1")
	var conn, out net.PacketConn
	var err error
	in.Do(func() {
		if conn, err = net.ListenPacket("ip4:icmp", checktest.Far4); err == nil {
			out, err = net.ListenPacket("ip4:icmp", from)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		buf := make([]byte, 65536)
		for {
			n, peer, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			m, err := icmp.ParseMessage(1, buf[:n])
			if err != nil || m.Type != ipv4.ICMPTypeEcho {
				continue
			}
			for _, a := range answer(*m.Body.(*icmp.Echo)) {
				if b, err := a.Marshal(nil); err == nil {
					_, _ = out.WriteTo(b, peer)
				}
			}
		}
	}()
	return func() {
		conn.Close()
		out.Close()
		<-ended
	}
}

// reply is an echo reply after f edited it.
func reply(f func(e *icmp.Echo)) func(q icmp.Echo) []icmp.Message {
	return func(q icmp.Echo) []icmp.Message {
		e := icmp.Echo{ID: q.ID, Seq: q.Seq, Data: append([]byte(nil), q.Data...)}
		f(&e)
		return []icmp.Message{{Type: ipv4.ICMPTypeEchoReply, Body: &e}}
	}
}

// refusal is a host unreachable that quotes a request as f edited it.
func refusal(f func(quoted []byte)) func(q icmp.Echo) []icmp.Message {
	return func(q icmp.Echo) []icmp.Message {
		quoted := make([]byte, 28)
		quoted[0], quoted[8], quoted[9] = 0x45, 63, 1
		binary.BigEndian.PutUint16(quoted[2:], 84)
		copy(quoted[12:], net.ParseIP(checktest.Near4).To4())
		copy(quoted[16:], net.ParseIP(checktest.Far4).To4())
		quoted[20] = 8
		binary.BigEndian.PutUint16(quoted[24:], uint16(q.ID))
		binary.BigEndian.PutUint16(quoted[26:], uint16(q.Seq))
		f(quoted)
		return []icmp.Message{{Type: ipv4.ICMPTypeDestinationUnreachable, Code: 1, Body: &icmp.DstUnreach{Data: quoted}}}
	}
}

// objection is a message of this type and code that quotes a request.
func objection(kind ipv4.ICMPType, code int) func(q icmp.Echo) []icmp.Message {
	return func(q icmp.Echo) []icmp.Message {
		m := refusal(func([]byte) {})(q)
		m[0].Type, m[0].Code = kind, code
		quoted := m[0].Body.(*icmp.DstUnreach).Data
		m[0].Body = &icmp.RawBody{Data: append(make([]byte, 4), quoted...)}
		return m
	}
}

// both gives the one at once, and the other behind it.
func both(first, then func(q icmp.Echo) []icmp.Message) func(q icmp.Echo) []icmp.Message {
	return func(q icmp.Echo) []icmp.Message { return append(first(q), then(q)...) }
}

// What is no reply to a request of this round does not count, whatever it looks like.
func TestHostile(t *testing.T) {
	t.Parallel()
	p := checktest.NewPath(t, 1500, 1500)
	p.Far.IP("addr add 10.0.2.9/24 dev eth0")
	same := func(*icmp.Echo) {}
	for name, c := range map[string]struct {
		count  int
		from   string
		answer func(q icmp.Echo) []icmp.Message
		reason checks.Reason
		words  string
	}{
		"right":            {1, checktest.Far4, reply(same), "", ""},
		"another id":       {1, checktest.Far4, reply(func(e *icmp.Echo) { e.ID++ }), checks.ReasonTimeout, "0 of 1 replies"},
		"another number":   {1, checktest.Far4, reply(func(e *icmp.Echo) { e.Seq++ }), checks.ReasonTimeout, "0 of 1 replies"},
		"another payload":  {1, checktest.Far4, reply(func(e *icmp.Echo) { e.Data[0]++ }), checks.ReasonTimeout, "0 of 1 replies"},
		"cut":              {1, checktest.Far4, reply(func(e *icmp.Echo) { e.Data = e.Data[:20] }), checks.ReasonTimeout, "0 of 1 replies"},
		"longer":           {1, checktest.Far4, reply(func(e *icmp.Echo) { e.Data = append(e.Data, 0) }), checks.ReasonTimeout, "0 of 1 replies"},
		"oversized":        {1, checktest.Far4, reply(func(e *icmp.Echo) { e.Data = append(e.Data, make([]byte, 60000)...) }), checks.ReasonTimeout, "0 of 1 replies"},
		"another host":     {1, "10.0.2.9", reply(same), checks.ReasonTimeout, "0 of 1 replies"},
		"many of the same": {2, checktest.Far4, func(q icmp.Echo) []icmp.Message { q.Seq = 0; m := reply(same)(q); return append(m, m...) }, checks.ReasonTimeout, "1 of 2 replies"},
		"refused":          {1, checktest.Far4, refusal(func([]byte) {}), checks.ReasonUnreachable, "10.0.2.2 says: host unreachable"},
		"refused, and not": {1, checktest.Far4, both(refusal(func([]byte) {}), reply(same)), "", ""},
		"too big, and not": {1, checktest.Far4, both(objection(ipv4.ICMPTypeDestinationUnreachable, 4), reply(same)), "", ""},
		"quenched":         {1, checktest.Far4, objection(4, 0), checks.ReasonTimeout, "0 of 1 replies"},
		"redirected":       {1, checktest.Far4, objection(ipv4.ICMPTypeRedirect, 1), checks.ReasonTimeout, "0 of 1 replies"},
		"header complaint": {1, checktest.Far4, objection(ipv4.ICMPTypeParameterProblem, 0), checks.ReasonTimeout, "0 of 1 replies"},
		"too far":          {1, checktest.Far4, objection(ipv4.ICMPTypeTimeExceeded, 0), checks.ReasonUnreachable, "time to live exceeded"},
		"another refused":  {1, checktest.Far4, refusal(func(q []byte) { q[25]++ }), checks.ReasonTimeout, "0 of 1 replies"},
		"a number refused": {1, checktest.Far4, refusal(func(q []byte) { q[27]++ }), checks.ReasonTimeout, "0 of 1 replies"},
	} {
		t.Run(name, func(t *testing.T) {
			defer respond(t, p.Far, c.from, c.answer)()
			for kind, use := range sockets(p.Near) {
				use()
				d := medium
				if c.reason == checks.ReasonTimeout {
					d = short
				}
				want(t, kind+" "+name, probe(t, p.Near, Spec{Address: checktest.Far4, Count: c.count}, d), c.reason, c.words)
			}
		})
	}
}

// A ping socket sees who answers in the target's place.
func TestImpostor(t *testing.T) {
	t.Parallel()
	p := checktest.NewPath(t, 1500, 1500)
	p.Far.IP("addr add 10.0.2.9/24 dev eth0")
	defer respond(t, p.Far, "10.0.2.9", reply(func(*icmp.Echo) {}))()
	sockets(p.Near)["ping"]()
	want(t, "impostor", probe(t, p.Near, Spec{Address: checktest.Far4}, short), checks.ReasonTimeout,
		"no reply within D; 10.0.2.9 answered in its place (sent from 10.0.1.2, 0 of 1 replies)")
}

// Of many messages that are not about the requests whoever looks on sees a few.
func TestOthersTraced(t *testing.T) {
	t.Parallel()
	p := checktest.NewPath(t, 1500, 1500)
	other := reply(func(e *icmp.Echo) { e.Data[0]++ })
	defer respond(t, p.Far, checktest.Far4, func(q icmp.Echo) (ms []icmp.Message) {
		for range shownOthers + 20 {
			ms = append(ms, other(q)...)
		}
		return append(ms, reply(func(*icmp.Echo) {})(q)...)
	})()
	var lines []string
	ctx := checks.WithTrace(t.Context(), func(_ checks.Direction, text string) { lines = append(lines, text) })
	var err error
	p.Near.Do(func() { err = made(t, Spec{Address: checktest.Far4}).Check(ctx) })
	want(t, "many others", err, "", "")
	if n := len(lines); n != 1+shownOthers+2 || lines[n-1] != "and 20 more that are not about these requests" {
		t.Errorf("%d lines:\n%s", n, strings.Join(lines, "\n"))
	}
}
