package trust

import (
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"strings"
	"testing"
	"time"

	"vouch/checks/checktest"
)

// The days that are left are those of the way up that lasts longest; what is not on it does not count.
func TestJudge(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	in := func(days float64, name string) *x509.Certificate {
		return &x509.Certificate{DNSNames: []string{name}, NotAfter: now.Add(time.Duration(days * 24 * float64(time.Hour)))}
	}
	leaf, old, long := in(40, "leaf"), in(3.5, "old"), in(400, "long")
	for name, c := range map[string]struct {
		days   int
		sent   []*x509.Certificate
		chains [][]*x509.Certificate
		want   string
	}{
		"not asked for":      {0, []*x509.Certificate{old}, nil, ""},
		"long enough":        {40, []*x509.Certificate{leaf}, [][]*x509.Certificate{{leaf, long}}, ""},
		"too short":          {41, []*x509.Certificate{leaf}, [][]*x509.Certificate{{leaf, long}}, "the certificate of leaf ends 2030-02-10T00:00:00Z, in 40 days; min_cert_days is 41"},
		"the one above":      {14, []*x509.Certificate{leaf, old}, [][]*x509.Certificate{{leaf, old}}, "the certificate of old ends 2030-01-04T12:00:00Z, in 3 days; min_cert_days is 14"},
		"another way up":     {14, []*x509.Certificate{leaf, old}, [][]*x509.Certificate{{leaf, old}, {leaf, long}}, ""},
		"sent for nothing":   {14, []*x509.Certificate{leaf, old}, [][]*x509.Certificate{{leaf, long}}, ""},
		"not verified":       {14, []*x509.Certificate{leaf, old}, nil, ""},
		"not verified, past": {1, []*x509.Certificate{in(-2, "past")}, nil, "the certificate of past ends 2029-12-30T00:00:00Z, which is past; min_cert_days is 1"},
		"none came":          {14, nil, nil, ""},
	} {
		client := (&Spec{MinCertDays: c.days}).Client("x")
		f := client.Judge(tls.ConnectionState{PeerCertificates: c.sent, VerifiedChains: c.chains}, now)
		got := ""
		if f != nil {
			got = f.Detail
		}
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

// Judge sees what a real handshake leaves.
func TestJudgeHandshake(t *testing.T) {
	ca := checktest.NewCA(t)
	pair := ca.Issue(t, www, checktest.Ends(5*24*time.Hour+time.Hour))
	at := checktest.TLS(t, "127.0.0.1", pair.Config(), nil)
	no := false
	for _, s := range []Spec{{CA: ca.File, MinCertDays: 6}, {Verify: &no, MinCertDays: 6}} {
		err := shake(t, netAddr(at.String()), s, 0, 10*time.Second)
		if got, want := text(err), "tls: the certificate of www.example.com ends "+date(pair.Leaf.NotAfter)+", in 5 days; min_cert_days is 6"; got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
		s.MinCertDays = 5
		if err := shake(t, netAddr(at.String()), s, 0, 10*time.Second); err != nil {
			t.Error(err)
		}
	}
}

type netAddr string

func (netAddr) Network() string  { return "tcp" }
func (a netAddr) String() string { return string(a) }

// What a server sends cannot fill the screen.
func TestHolder(t *testing.T) {
	many := &x509.Certificate{DNSNames: []string{"a", "b", "c", "d", "e", "f", "g"}}
	if got := holder(many); got != "a, b, c, d, e and 2 more" {
		t.Error(got)
	}
	if got := holder(&x509.Certificate{DNSNames: []string{strings.Repeat("x", 5000)}}); len(got) > 200 {
		t.Errorf("%d bytes", len(got))
	}
	if got := holder(&x509.Certificate{SerialNumber: big.NewInt(7)}); got != "serial number 7" {
		t.Error(got)
	}
}
