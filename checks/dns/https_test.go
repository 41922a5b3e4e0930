package dns

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"vouch/checks"
	"vouch/checks/checktest"
)

// A busy machine takes long over a body.
func init() { lastWait = 10 * time.Second }

// A server that does not have HTTP/2 is not talked to in what it has instead.
func TestHTTP2Only(t *testing.T) {
	ca := checktest.NewCA(t)
	for words, protos := range map[string][]string{"does not speak HTTP/2": nil, "none of the protocols": {"http/1.1"}, "alert 120": {"other"}} {
		conf := ca.Issue(t, host).Config()
		conf.NextProtos = protos
		at := checktest.TLS(t, "127.0.0.1", conf, func(c *tls.Conn) { _, _ = c.Write([]byte("HTTP/1.1 200 OK\r\n\r\n")) })
		want(t, probe(t, over("https", at, ca)), checks.ReasonTLS, words)
	}
}

// Where HTTP/2 is switched off from outside, that is told, and says nothing about the server.
func TestSwitchedOff(t *testing.T) {
	t.Setenv("GODEBUG", "http2client=0")
	ca := checktest.NewCA(t)
	at := checktest.DNSOverHTTPS(t, "127.0.0.1", ca.Issue(t, host).Config(), checktest.Message(ok))
	want(t, probe(t, over("https", at, ca)), checks.ReasonUnknown, "HTTP/2 is switched off in this process: take http2client=0 out of its GODEBUG")
}

// Whoever looks on sees the id that went over HTTPS, which is 0.
func TestOverHTTPSTraced(t *testing.T) {
	ca := checktest.NewCA(t)
	at := checktest.DNSOverHTTPS(t, "127.0.0.1", ca.Issue(t, host).Config(), checktest.Message(checktest.Answer(dns.RcodeSuccess)))
	got, err := traced(t, over("https", at, ca), 10*time.Second)
	if n := strings.Count(got, "id: 0\n"); err != nil || n != 2 || strings.Count(got, "id: ") != n {
		t.Errorf("%v\n%s", err, got)
	}
}

// A body that does not come holds up no failure that is known already.
func TestOverHTTPSStalledBody(t *testing.T) {
	old := lastWait
	lastWait = 100 * time.Millisecond
	defer func() { lastWait = old }()
	ca := checktest.NewCA(t)
	at := checktest.DNSOverHTTPS(t, "127.0.0.1", ca.Issue(t, host).Config(), func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	_, err := traced(t, over("https", at, ca), time.Minute)
	if want(t, err, checks.ReasonStatus, "503"); err != nil && strings.Contains(err.Error(), "body") {
		t.Errorf("nothing is known of the body: %v", err)
	}
}

// Whoever looks on sees the body of a response that has no DNS message.
func TestOverHTTPSBody(t *testing.T) {
	ca := checktest.NewCA(t)
	conf := ca.Issue(t, host).Config()
	for kind, reason := range map[string]checks.Reason{"text/html": checks.ReasonStatus, mediaType: checks.ReasonProtocol} {
		at := checktest.DNSOverHTTPS(t, "127.0.0.1", conf, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			if kind != mediaType {
				w.WriteHeader(http.StatusForbidden)
			}
			_, _ = w.Write([]byte("<html>\n" + strings.Repeat("<b>no</b>\n", 20)))
		})
		got, err := traced(t, over("https", at, ca), 10*time.Second)
		if want(t, err, reason, `; the body begins "<html>\n<b>no`); !strings.Contains(got, "< 207 bytes:\n\"<html>\\n\"\n\"<b>no</b>\\n\"\n") {
			t.Errorf("%s:\n%s", kind, got)
		}
	}
}
