package trust

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"time"

	"vouch/checks"
)

// Judge wants what the server's certificate rests on to stay valid for the days that are configured: the
// certificate and those above it, along the way that lasts longest; without verification the certificate
// alone. It gives nil, or a failure of reason tls.
func (c *Client) Judge(state tls.ConnectionState, now time.Time) *checks.Failure {
	if c.spec.MinCertDays == 0 || len(state.PeerCertificates) == 0 {
		return nil
	}
	first := state.PeerCertificates[0]
	if len(state.VerifiedChains) > 0 {
		first = nil
	}
	for _, chain := range state.VerifiedChains {
		if ends := soonest(chain); first == nil || ends.NotAfter.After(first.NotAfter) {
			first = ends
		}
	}
	left := first.NotAfter.Sub(now)
	if left >= time.Duration(c.spec.MinCertDays)*24*time.Hour {
		return nil
	}
	when := fmt.Sprintf("in %d days", int(left.Hours()/24))
	if left < 0 {
		when = "which is past"
	}
	return &checks.Failure{Reason: checks.ReasonTLS, Detail: fmt.Sprintf("the certificate of %s ends %s, %s; min_cert_days is %d",
		holder(first), date(first.NotAfter), when, c.spec.MinCertDays)}
}

// soonest gives the one of a chain that ends first.
func soonest(chain []*x509.Certificate) *x509.Certificate {
	first := chain[0]
	for _, cert := range chain[1:] {
		if cert.NotAfter.Before(first.NotAfter) {
			first = cert
		}
	}
	return first
}

// Describe tells of a connection for a trace: version, cipher, protocol, and each certificate.
func Describe(state tls.ConnectionState) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", tls.VersionName(state.Version), tls.CipherSuiteName(state.CipherSuite))
	if state.NegotiatedProtocol != "" {
		fmt.Fprintf(&b, " %s", state.NegotiatedProtocol)
	}
	for _, cert := range state.PeerCertificates {
		b.WriteString("\n" + describe(cert))
	}
	return b.String()
}

func describe(cert *x509.Certificate) string {
	return fmt.Sprintf("certificate of %s by %q, valid %s to %s", holder(cert), clip(cert.Issuer.String()), date(cert.NotBefore), date(cert.NotAfter))
}

// holder tells whose certificate it is: the names that it is for, or else its subject.
func holder(cert *x509.Certificate) string {
	if ns := names(cert); len(ns) > 0 {
		return list(ns)
	}
	if s := cert.Subject.String(); s != "" {
		return fmt.Sprintf("%q", clip(s))
	}
	return "serial number " + clip(cert.SerialNumber.String())
}

// names are those that a certificate is for; the common name is not among them (RFC 9525, section 2).
func names(cert *x509.Certificate) []string {
	out := append([]string(nil), cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		out = append(out, ip.String())
	}
	return out
}

// list gives the first few names.
func list(all []string) string {
	const most = 5
	var b strings.Builder
	for i, name := range all {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(all)-most)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(clip(name))
	}
	return b.String()
}

// clip keeps what a server sends from filling the screen.
func clip(s string) string {
	const most = 120
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

func date(t time.Time) string { return t.UTC().Format(time.RFC3339) }
