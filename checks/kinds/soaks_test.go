package kinds

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"vouch/checks"
	"vouch/checks/checktest"
	"vouch/checks/datagram"
)

// soaks has the variants of each kind, and starts the servers that they ask.
var soaks = map[string]func(testing.TB) []variant{
	"address": soakAddress,
	"dns":     soakDNS,
	"exec":    soakExec,
	"file":    soakFile,
	"http":    soakHTTP,
	"icmp":    soakICMP,
	"mtu":     soakMTU,
	"ntp":     soakNTP,
	"route":   soakRoute,
	"systemd": soakSystemd,
	"tcp":     soakTCP,
	"tls":     soakTLS,
	"udp":     soakUDP,
}

const (
	home = "127.0.0.1"
	// nobody listens on this port, and as the kernel never chooses it for a socket of ours none is connected to
	// itself.
	nobody = "127.0.0.1:1"
	// elsewhere is an address that no machine has (RFC 5737). What is sent there through lo comes back as
	// a stranger, and is dropped.
	elsewhere = "192.0.2.77"
)

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
	return []variant{
		ok("exit 0", `command = ["true"]`),
		fails("exit 1", checks.ReasonStatus, `command = ["false"]`),
		fails("is not there", checks.ReasonExec, `command = ["/nonexistent/program"]`),
		fails("hangs", checks.ReasonTimeout, `command = ["sleep", "60"]`),
	}
}

func soakFile(tb testing.TB) []variant {
	path := filepath.Join(tb.TempDir(), "flag")
	if err := os.WriteFile(path, []byte("all is well\n"), 0o600); err != nil {
		tb.Fatal(err)
	}
	return []variant{
		ok("there", "path = %q\ncontains = \"well\"", path),
		fails("without what it must contain", checks.ReasonMismatch, "path = %q\ncontains = \"ill\"", path),
		fails("not there", checks.ReasonAbsent, `path = %q`, path+"/none/of/these"),
	}
}

func soakSystemd(tb testing.TB) []variant {
	s := checktest.NewSystemd(tb)
	runs := checktest.Unit{"Id": "unbound.service", "Names": "unbound.service", "LoadState": "loaded", "ActiveState": "active",
		"SubState": "running", "Result": "success", "NRestarts": "0"}
	s.Set(runs)
	s.Set(runs.With("Id", "nsd.service", "Names", "nsd.service", "ActiveState", "failed", "SubState", "failed", "Result", "exit-code"))
	tb.Setenv("DBUS_SYSTEM_BUS_ADDRESS", s.Address())
	return []variant{
		ok("runs", `unit = "unbound"`),
		fails("has failed", checks.ReasonUnusable, `unit = "nsd"`),
		fails("is not there", checks.ReasonAbsent, `unit = "knot"`),
	}
}

func soakUDP(tb testing.TB) []variant {
	echo := checktest.UDP(tb, home, func(d checktest.Datagram) { d.Reply(d.Bytes) })
	strays := checktest.UDP(tb, home, func(d checktest.Datagram) { d.ReplyFrom(tb, d.Bytes) })
	const talk = "address = %q\nsend = \"PING\"\nexpect = \"PING\""
	return []variant{
		ok("answers", talk, echo),
		fails("nobody listens", checks.ReasonRefused, talk, nobody),
		fails("another answer", checks.ReasonMismatch, "address = %q\nsend = \"PING\"\nexpect = \"PONG\"", echo),
		fails("silent", checks.ReasonTimeout, talk, checktest.UDP(tb, home, func(checktest.Datagram) {})),
		fails("answers from elsewhere", checks.ReasonTimeout, talk, strays),
	}
}

// Where this process may not send echo requests, every round says so.
func soakICMP(testing.TB) []variant {
	vs := []variant{
		ok("answers", `address = "127.0.0.1"`),
		ok("answers, IPv6", `address = "::1"`),
		fails("silent", checks.ReasonTimeout, "address = %q\ndevice = \"lo\"", elsewhere),
	}
	return orUnknown(vs)
}

// orUnknown has nothing be found out where this process may not send echo requests.
func orUnknown(vs []variant) []variant {
	if datagram.MayEcho(netip.MustParseAddr("127.0.0.1")) == nil {
		return vs
	}
	for i := range vs {
		vs[i].want = append(vs[i].want, checks.ReasonUnknown)
	}
	return vs
}

func soakMTU(tb testing.TB) []variant {
	silent := checktest.UDP(tb, home, func(checktest.Datagram) {})
	carries := ok("carries", `destinations = ["127.0.0.1"]`)
	carries.timeout = 3 * time.Second // of which each third is a try
	vs := []variant{
		carries,
		fails("silent", checks.ReasonTimeout, "destinations = [%q]\ndevice = \"lo\"", elsewhere),
		fails("silent, quic", checks.ReasonTimeout, "destinations = [%q]\nprobe = \"quic\"", silent),
		fails("nobody listens, quic", checks.ReasonRefused, "destinations = [%q]\nprobe = \"quic\"", nobody),
	}
	return orUnknown(vs)
}

// ntpReply answers as a server of stratum 2 that is synchronised (RFC 5905, section 7.3).
func ntpReply(change func(reply []byte)) func(checktest.Datagram) {
	return func(d checktest.Datagram) {
		if len(d.Bytes) < 48 {
			return
		}
		r := make([]byte, 48)
		r[0], r[1], r[2], r[3] = 4<<3|4, 2, 6, 0xec // version 4, server; stratum; poll; precision
		copy(r[12:16], "LOCL")                      // reference id
		copy(r[24:], d.Bytes[40:48])                // the client's time
		since := time.Since(time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC))
		for _, at := range []int{16, 32, 40} { // of reference, receipt and reply
			for i := range 4 {
				r[at+i] = byte(uint64(since/time.Second) >> (24 - 8*i))
			}
		}
		change(r)
		d.Reply(r)
	}
}

func soakNTP(tb testing.TB) []variant {
	good := checktest.UDP(tb, home, ntpReply(func([]byte) {}))
	unsynchronised := checktest.UDP(tb, home, ntpReply(func(r []byte) { r[0] |= 3 << 6; r[1] = 16 }))
	other := checktest.UDP(tb, home, ntpReply(func(r []byte) { r[30]++ }))
	return []variant{
		ok("in time", "server = %q\nmax_root_distance = \"1m\"", good),
		fails("not synchronised", checks.ReasonMismatch, `server = %q`, unsynchronised),
		fails("answers another question", checks.ReasonTimeout, `server = %q`, other),
		fails("silent", checks.ReasonTimeout, `server = %q`, checktest.UDP(tb, home, func(checktest.Datagram) {})),
		fails("nobody listens", checks.ReasonRefused, `server = %q`, nobody),
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
