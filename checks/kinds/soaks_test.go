package kinds

import (
	"net"
	"testing"
	"time"

	mdns "github.com/miekg/dns"

	"vouch/checks"
	"vouch/checks/checktest"
)

// soaks has the variants of each kind, and starts the servers that they ask.
var soaks = map[string]func(testing.TB) []variant{
	"address": soakAddress,
	"dns":     soakDNS,
	"exec":    soakExec,
	"route":   soakRoute,
	"tcp":     soakTCP,
}

const home = "127.0.0.1"

// elsewhere is an address that no machine has (RFC 5737).
const elsewhere = "192.0.2.77"

func soakAddress(testing.TB) []variant {
	return []variant{
		ok("there", `address = "127.0.0.1"`),
		fails("not there", checks.ReasonAbsent, `address = %q`, elsewhere),
	}
}

// The main table is what this machine has; the other one is empty.
func soakRoute(testing.TB) []variant {
	main := ok("main table", "")
	main.want = append(main.want, checks.ReasonAbsent, checks.ReasonUnusable)
	return []variant{main, fails("empty table", checks.ReasonAbsent, "table = 4000000001\nfamily = \"both\"")}
}

func soakExec(testing.TB) []variant {
	hangs := fails("hangs", checks.ReasonTimeout, `command = ["sleep", "60"]`)
	return []variant{
		ok("exit 0", `command = ["true"]`),
		fails("exit 1", checks.ReasonStatus, `command = ["false"]`),
		fails("is not there", checks.ReasonExec, `command = ["/nonexistent/program"]`),
		hangs,
	}
}

func soakDNS(tb testing.TB) []variant {
	good := checktest.DNS(tb, home, checktest.Answer(mdns.RcodeSuccess), checktest.Answer(mdns.RcodeSuccess))
	refuses := checktest.DNS(tb, home, checktest.Answer(mdns.RcodeRefused), nil)
	cut := checktest.DNS(tb, home, checktest.Truncated(), checktest.Close())
	silent := checktest.DNS(tb, home, checktest.Silent(), checktest.Silent())
	storm := checktest.DNS(tb, home, checktest.Each(checktest.Elsewhere(),
		checktest.Change(func(m *mdns.Msg) { m.Id++ }), checktest.Bytes(func(w []byte) []byte { return w[:7] })), nil)
	return []variant{
		ok("udp", `server = %q`, good),
		ok("tcp", "server = %q\nproto = \"tcp\"", good),
		fails("nobody listens, udp", checks.ReasonRefused, `server = %q`, checktest.Closed(tb, home)),
		fails("nobody listens, tcp", checks.ReasonRefused, "server = %q\nproto = \"tcp\"", checktest.Closed(tb, home)),
		fails("rcode", checks.ReasonStatus, "server = %q\naccept = [\"NOERROR\"]", refuses),
		fails("silent, udp", checks.ReasonTimeout, `server = %q`, silent),
		fails("silent, tcp", checks.ReasonTimeout, "server = %q\nproto = \"tcp\"", silent),
		fails("truncated, and closed over tcp", checks.ReasonProtocol, `server = %q`, cut),
		fails("false replies", checks.ReasonTimeout, `server = %q`, storm),
	}
}

func soakTCP(tb testing.TB) []variant {
	keeps := checktest.TCP(tb, home, func(c net.Conn) { drain(c) })
	greets := checktest.TCP(tb, home, func(c net.Conn) { _, _ = c.Write([]byte("220 ready\r\n")); drain(c) })
	endless := checktest.TCP(tb, home, func(c net.Conn) {
		for block := make([]byte, 16<<10); ; {
			if _, err := c.Write(block); err != nil {
				return
			}
		}
	})
	return []variant{
		ok("connects", `address = %q`, keeps),
		ok("greets", "address = %q\nexpect = \"220 \"", greets),
		fails("nobody listens", checks.ReasonRefused, `address = %q`, checktest.Closed(tb, home)),
		fails("reset", checks.ReasonRefused, `address = %q`, checktest.TCP(tb, home, checktest.Reset)),
		fails("closed", checks.ReasonRefused, `address = %q`, checktest.TCP(tb, home, func(net.Conn) {})),
		fails("hangs", checks.ReasonTimeout, "address = %q\nexpect = \"220 \"", checktest.TCP(tb, home, nil)),
		fails("endless", checks.ReasonMismatch, "address = %q\nexpect = \"220 \"", endless),
	}
}

// drain reads until the other side ends the connection.
func drain(c net.Conn) {
	for buf := make([]byte, 4<<10); ; {
		if err := c.SetReadDeadline(time.Now().Add(plenty)); err != nil {
			return
		}
		if _, err := c.Read(buf); err != nil {
			return
		}
	}
}
