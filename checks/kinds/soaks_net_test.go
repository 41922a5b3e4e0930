package kinds

import (
	"bytes"
	"crypto/tls"
	"net"
	"net/http"
	"testing"

	mdns "github.com/miekg/dns"

	"vouch/checks"
	"vouch/checks/checktest"
)

const certName = "www.example.net"

func soakDNS(tb testing.TB) []variant {
	good := checktest.DNS(tb, home, checktest.Answer(mdns.RcodeSuccess), checktest.Answer(mdns.RcodeSuccess))
	refuses := checktest.DNS(tb, home, checktest.Answer(mdns.RcodeRefused), nil)
	cut := checktest.DNS(tb, home, checktest.Truncated(), checktest.Close())
	silent := checktest.DNS(tb, home, checktest.Silent(), checktest.Silent())
	storm := checktest.DNS(tb, home, checktest.Each(checktest.Elsewhere(),
		checktest.Change(func(m *mdns.Msg) { m.Id++ }), checktest.Bytes(func(w []byte) []byte { return w[:7] })), nil)
	return append([]variant{
		ok("udp", `server = %q`, good),
		ok("tcp", "server = %q\nproto = \"tcp\"", good),
		fails("nobody listens, udp", checks.ReasonRefused, `server = %q`, nobody),
		fails("nobody listens, tcp", checks.ReasonRefused, "server = %q\nproto = \"tcp\"", nobody),
		fails("rcode", checks.ReasonStatus, "server = %q\naccept = [\"NOERROR\"]", refuses),
		fails("silent, udp", checks.ReasonTimeout, `server = %q`, silent),
		fails("silent, tcp", checks.ReasonTimeout, "server = %q\nproto = \"tcp\"", silent),
		fails("truncated, and closed over tcp", checks.ReasonProtocol, `server = %q`, cut),
		fails("false replies", checks.ReasonTimeout, `server = %q`, storm),
	}, soakSecureDNS(tb)...)
}

func soakSecureDNS(tb testing.TB) []variant {
	ca := checktest.NewCA(tb)
	good, old := ca.Issue(tb, certName), ca.Issue(tb, certName, checktest.Expired)
	answer := checktest.Answer(mdns.RcodeSuccess)
	trusts := func(proto string) string {
		return "server = %q\nproto = \"" + proto + "\"\nserver_name = \"" + certName + "\"\nca = \"" + ca.File + "\"\n"
	}
	// It is never done with a request.
	stalls := checktest.DNSOverHTTPS(tb, home, good.Config(), func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	return []variant{
		ok("tls", trusts("tls"), checktest.DNSOverTLS(tb, home, good.Config(), answer)),
		ok("https", trusts("https"), checktest.DNSOverHTTPS(tb, home, good.Config(), checktest.Message(answer))),
		fails("tls, expired", checks.ReasonTLS, trusts("tls"), checktest.DNSOverTLS(tb, home, old.Config(), answer)),
		fails("https, expired", checks.ReasonTLS, trusts("https"), checktest.DNSOverHTTPS(tb, home, old.Config(), checktest.Message(answer))),
		slow(fails("tls, silent", checks.ReasonTimeout, trusts("tls"), checktest.DNSOverTLS(tb, home, good.Config(), checktest.Silent()))),
		slow(fails("https, silent", checks.ReasonTimeout, trusts("https"), stalls)),
		fails("tls, black hole", checks.ReasonTimeout, trusts("tls"), checktest.TCP(tb, home, drain)),
		fails("https, black hole", checks.ReasonTimeout, trusts("https"), checktest.TCP(tb, home, drain)),
	}
}

func soakTCP(tb testing.TB) []variant {
	keeps := checktest.TCP(tb, home, drain)
	greets := checktest.TCP(tb, home, func(c net.Conn) { _, _ = c.Write([]byte("220 ready\r\n")); drain(c) })
	const expects = "address = %q\nexpect = \"220 \""
	ca := checktest.NewCA(tb)
	secure := "tls = true\nserver_name = \"" + certName + "\"\nca = \"" + ca.File + "\"\n" + expects
	greetsTLS := func(p checktest.Pair) net.Addr {
		at := checktest.TLS(tb, home, p.Config(), func(c *tls.Conn) { _, _ = c.Write([]byte("220 ready\r\n")) })
		return net.TCPAddrFromAddrPort(at)
	}
	return []variant{
		ok("connects", `address = %q`, keeps),
		ok("greets", expects, greets),
		ok("greets, tls", secure, greetsTLS(ca.Issue(tb, certName))),
		fails("nobody listens", checks.ReasonRefused, `address = %q`, nobody),
		orOK(fails("reset", checks.ReasonRefused, `address = %q`, checktest.TCP(tb, home, checktest.Reset))),
		orOK(fails("closed", checks.ReasonRefused, `address = %q`, checktest.TCP(tb, home, func(net.Conn) {}))),
		fails("hangs", checks.ReasonTimeout, expects, checktest.TCP(tb, home, nil)),
		fails("endless", checks.ReasonMismatch, expects, checktest.TCP(tb, home, endless)),
		fails("expired, tls", checks.ReasonTLS, secure, greetsTLS(ca.Issue(tb, certName, checktest.Expired))),
	}
}

// endless writes for as long as anybody reads.
func endless(c net.Conn) {
	for block := bytes.Repeat([]byte{'x'}, 16<<10); ; {
		if _, err := c.Write(block); err != nil {
			return
		}
	}
}

func soakTLS(tb testing.TB) []variant {
	ca, other := checktest.NewCA(tb), checktest.NewCA(tb)
	trusts := "address = %q\nserver_name = \"" + certName + "\"\nca = \"" + ca.File + "\"\n"
	serves := func(p checktest.Pair) string { return checktest.TLS(tb, home, p.Config(), nil).String() }
	return []variant{
		ok("good", trusts, serves(ca.Issue(tb, certName))),
		fails("expired", checks.ReasonTLS, trusts, serves(ca.Issue(tb, certName, checktest.Expired))),
		fails("wrong name", checks.ReasonTLS, trusts, serves(ca.Issue(tb, "other.example.net"))),
		fails("wrong authority", checks.ReasonTLS, trusts, serves(other.Issue(tb, certName))),
		fails("no TLS", checks.ReasonTLS, trusts, checktest.TCP(tb, home, endless)),
		fails("black hole", checks.ReasonTimeout, trusts, checktest.TCP(tb, home, drain)),
		fails("reset", checks.ReasonRefused, trusts, checktest.TCP(tb, home, checktest.Reset)),
		fails("nobody listens", checks.ReasonRefused, trusts, nobody),
	}
}
