package kinds

import (
	"net"
	"net/http"
	"testing"

	"vouch/checks"
	"vouch/checks/checktest"
)

func soakHTTP(tb testing.TB) []variant {
	ca := checktest.NewCA(tb)
	good := ca.Issue(tb, certName)
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ready\n")) })
	stalls := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	plain := func(answer string) string {
		return checktest.TCP(tb, home, func(c net.Conn) { _, _ = c.Write([]byte(answer)); drain(c) }).String()
	}
	const url = "url = \"http://%s/\""
	secure := func(version string) string {
		return "url = \"https://" + certName + "/\"\nconnect = %q\nca = \"" + ca.File + "\"\nversion = \"" + version + "\"\n"
	}
	old := ca.Issue(tb, certName, checktest.Expired)
	served := checktest.HTTP(tb, home, good.Config(), page)
	return []variant{
		ok("1.1", url, plain("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n")),
		ok("1.1, tls", secure("1.1"), served),
		ok("h2", secure("2"), served),
		fails("status", checks.ReasonStatus, url, plain("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")),
		fails("nobody listens", checks.ReasonRefused, url, nobody),
		fails("black hole", checks.ReasonTimeout, url, checktest.TCP(tb, home, drain)),
		fails("no HTTP", checks.ReasonProtocol, url, checktest.TCP(tb, home, endless)),
		fails("expired", checks.ReasonTLS, secure("auto"), checktest.HTTP(tb, home, old.Config(), page)),
		slow(fails("stalls, h2", checks.ReasonTimeout, secure("2"), checktest.HTTP(tb, home, good.Config(), stalls))),
		fails("nobody listens, h2", checks.ReasonRefused, secure("2"), nobody),
		ok("h3", secure("3"), checktest.HTTP3(tb, home, good.Config(), page)),
		fails("expired, h3", checks.ReasonTLS, secure("3"), checktest.HTTP3(tb, home, old.Config(), page)),
		slow(fails("stalls, h3", checks.ReasonTimeout, secure("3"), checktest.HTTP3(tb, home, good.Config(), stalls))),
		fails("black hole, h3", checks.ReasonTimeout, secure("3"), checktest.UDP(tb, home, func(checktest.Datagram) {})),
		fails("nobody listens, h3", checks.ReasonRefused, secure("3"), nobody),
	}
}
