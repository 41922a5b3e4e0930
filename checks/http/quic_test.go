package http

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"vouch/checks"
	"vouch/checks/checktest"
	"vouch/checks/trust"
)

// shown runs a check, and gives what whoever looks on sees.
func shown(t *testing.T, s Spec, d time.Duration) (string, error) {
	t.Helper()
	var mu sync.Mutex
	var b strings.Builder
	ctx, cancel := context.WithTimeout(checks.WithTrace(t.Context(), func(d checks.Direction, text string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(&b, "%c %s\n", d, text)
	}), d)
	defer cancel()
	err := create(t, s).Check(ctx)
	mu.Lock()
	defer mu.Unlock()
	return b.String(), err
}

// That there was no time to make a socket says nothing of the server, as connecting it asks nobody.
func TestNoTimeForASocket(t *testing.T) {
	at := listen(t, "3", checktest.NewCA(t).Issue(t, name).Config(), hello)
	want(t, probe(t, Spec{URL: fmt.Sprintf("https://%s/", at), Version: "3"}, time.Nanosecond), checks.ReasonUnknown, "this process did not get to run within ")
}

// Whoever looks on sees how far a handshake got that failed.
func TestTraceOfHandshake(t *testing.T) {
	ca := checktest.NewCA(t)
	old, good := ca.Issue(t, name, checktest.Expired), ca.Issue(t, name)
	doq := good.Config()
	doq.NextProtos = []string{"doq"}
	refuses := checktest.QUIC(t, "127.0.0.1", doq, func(ln *quic.EarlyListener) { _, _ = ln.Accept(context.Background()) })
	hole := checktest.UDP(t, "127.0.0.1", func(checktest.Datagram) {})
	// What it answers is of no connection that there is.
	babbles := checktest.UDP(t, "127.0.0.1", func(d checktest.Datagram) { d.Reply(append([]byte{0x40}, d.Bytes[1:64]...)) })
	asks := good.Config()
	asks.ClientAuth, asks.ClientCAs = tls.RequireAndVerifyClientCert, ca.Pool()
	const offer = "> QUIC handshake with " + name + ", offering h3, to 127.0.0.1:"
	for what, c := range map[string]struct {
		at     netip.AddrPort
		wait   time.Duration
		reason checks.Reason
		failed string
		seen   []string
	}{
		"expired":     {listen(t, "3", old.Config(), hello), long, checks.ReasonTLS, "expired", []string{"< certificate of " + name + " by "}},
		"wrong ALPN":  {refuses, long, checks.ReasonTLS, "the server speaks none of the protocols that were offered", []string{" came back\n"}},
		"closed port": {checktest.Closed(t, "127.0.0.1"), long, checks.ReasonRefused, "no answer", []string{"< nothing came back\n"}},
		"black hole":  {hole, short, checks.ReasonTimeout, "udp is blocked, or nobody answers", []string{"< nothing came back\n"}},
		"babble":      {babbles, short, checks.ReasonTimeout, "what came was no whole handshake", []string{" came back\n"}},
		"asks":        {listen(t, "3", asks, hello), long, checks.ReasonTLS, "demands a client certificate", []string{"* the server asks for a certificate; none is configured\n"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := Spec{URL: "https://" + name + "/", Connect: c.at.String(), Version: "3", Spec: trust.Spec{CA: ca.File}}
			got, err := shown(t, s, c.wait)
			want(t, err, c.reason, c.failed)
			if !strings.HasPrefix(got, offer) {
				t.Errorf("got %s\nwant it to begin with %s", got, offer)
			}
			for _, w := range c.seen {
				if !strings.Contains(got, w) {
					t.Errorf("got %s\nwant %s", got, w)
				}
			}
		})
	}
}
