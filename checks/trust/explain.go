package trust

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strconv"
	"strings"
	"time"

	"vouch/checks"
)

// Failure tells people why a secure connection was broken off; late describes a timeout. What is no matter of TLS is
// classified as checks.NetFailure does. An alert of QUIC is told as one of TCP when it is passed as a tls.AlertError.
func Failure(ctx context.Context, late string, err error) *checks.Failure {
	return new(Client).Failure(ctx, late, err)
}

// Failure is the function Failure for a handshake: it tells what was offered, too, where that is what the server refused.
func (c *Client) Failure(ctx context.Context, late string, err error) *checks.Failure {
	if detail := c.explain(err); detail != "" {
		return &checks.Failure{Reason: checks.ReasonTLS, Detail: detail}
	}
	return checks.NetFailure(ctx, late, err)
}

// explain gives "" for an error that is none of TLS.
func (c *Client) explain(err error) string {
	var (
		verify *tls.CertificateVerificationError
		record tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &verify):
		return c.distrust(verify.UnverifiedCertificates, verify.Err, time.Now())
	case errors.As(err, &record):
		return fmt.Sprintf("the server does not speak TLS here: its answer begins with %q", record.RecordHeader[:])
	}
	if n, ok := alert(err); ok {
		return fmt.Sprintf("%s%s (alert %d, %s)", refusal(n), c.offered(n), n, strings.TrimPrefix(tls.AlertError(n).Error(), "tls: "))
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "local error" {
		err = op.Err
	}
	if text, ok := strings.CutPrefix(err.Error(), "tls: "); ok {
		return "no secure connection: " + c.chosen(text)
	}
	return ""
}

// offered gives what an alert says that the server has nothing of, after a colon.
func (c *Client) offered(alert uint8) string {
	switch {
	case alert == 70 && c.MinVersion != 0:
		return ": " + c.versions()
	case alert == 120 && len(c.alpn) > 0:
		return ": " + strings.Join(c.alpn, ", ")
	}
	return ""
}

// chosen adds what was offered to the text of crypto/tls for a server that chose something else.
func (c *Client) chosen(text string) string {
	version, old := strings.CutPrefix(text, "server selected unsupported protocol version ")
	n, err := strconv.ParseUint(version, 16, 16)
	switch {
	case old && err == nil && c.MinVersion != 0:
		return fmt.Sprintf("the server chose %s; offered: %s", tls.VersionName(uint16(n)), c.versions())
	case text == "server selected unadvertised ALPN protocol" && len(c.alpn) > 0:
		return text + "; offered: " + strings.Join(c.alpn, ", ")
	}
	return text
}

// versions names those that will do.
func (c *Client) versions() string {
	if c.MinVersion == tls.VersionTLS13 {
		return "TLS 1.3"
	}
	return "TLS 1.2, TLS 1.3"
}

// distrust says what is wrong with the certificates that a server sent.
func (c *Client) distrust(sent []*x509.Certificate, err error, now time.Time) string {
	var (
		invalid x509.CertificateInvalidError
		name    x509.HostnameError
		unknown x509.UnknownAuthorityError
	)
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && now.Before(invalid.Cert.NotBefore):
		return fmt.Sprintf("the certificate of %s is not valid before %s", holder(invalid.Cert), date(invalid.Cert.NotBefore))
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Sprintf("the certificate of %s expired %s", holder(invalid.Cert), date(invalid.Cert.NotAfter))
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		return fmt.Sprintf("the certificate of %s is not one for servers", holder(invalid.Cert))
	case errors.As(err, &name):
		return misnamed(name)
	case errors.As(err, &unknown) && len(sent) > 0:
		return c.untrusted(sent, unknown)
	}
	return "the certificate is not valid: " + bare(err).Error()
}

func misnamed(e x509.HostnameError) string {
	if ns := names(e.Certificate); len(ns) > 0 {
		return fmt.Sprintf("the certificate is for %s, not for %s", list(ns), e.Host)
	}
	return fmt.Sprintf("the certificate is for nobody, not for %s: it has no subject alternative names, and the common name in %s does not count",
		e.Host, holder(e.Certificate))
}

// untrusted tells where the way up from the leaf ends, and of the authorities that are not named, if that may be why.
func (c *Client) untrusted(sent []*x509.Certificate, unknown x509.UnknownAuthorityError) string {
	leaf, top := sent[0], climb(sent)
	issuer := fmt.Sprintf("%q", clip(top.Issuer.String()))
	const intermediate = "the server may have to send an intermediate certificate too"
	why, last := "", ": "+intermediate
	if c.spec.CA == "" {
		why = `: without ca = "/path/to/ca.pem" only the system's authorities are trusted`
		last = why + "; or else " + intermediate
	}
	switch {
	case strings.Contains(unknown.Error(), "candidate authority"): // Go knows more than it exports
		return fmt.Sprintf("the certificate of %s is signed in the name of %s, but not with the key of the one that is trusted under that name", holder(leaf), issuer)
	case selfIssued(leaf):
		return fmt.Sprintf("the certificate of %s is self-signed, and not among those trusted%s", holder(leaf), why)
	case selfIssued(top):
		return fmt.Sprintf("the certificate of %s leads up to the root %s, which is not trusted%s", holder(leaf), issuer, why)
	}
	return fmt.Sprintf("the certificate of %s leads up to %s, which is not trusted and did not come along%s", holder(leaf), issuer, last)
}

// climb gives the last certificate on the way from the leaf to its issuers, among those sent.
func climb(sent []*x509.Certificate) *x509.Certificate {
	top := sent[0]
	for range sent { // no longer than that, whatever signs what
		for _, next := range sent {
			if next != top && !selfIssued(top) && bytes.Equal(next.RawSubject, top.RawIssuer) {
				top = next
				break
			}
		}
	}
	return top
}

func selfIssued(cert *x509.Certificate) bool { return bytes.Equal(cert.RawSubject, cert.RawIssuer) }

// alert finds the number of the alert that the server sent. Over TCP crypto/tls gives it as a type that it
// does not export, a number (Go 1.26).
func alert(err error) (uint8, bool) {
	var quic tls.AlertError
	if errors.As(err, &quic) {
		return uint8(quic), true
	}
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		return 0, false
	}
	if v := reflect.ValueOf(op.Err); v.Kind() == reflect.Uint8 {
		return uint8(v.Uint()), true
	}
	return 0, false
}

// refusal tells what alerts mean (RFC 8446, section 6.2).
func refusal(alert uint8) string {
	switch alert {
	case 40:
		return "the server found nothing in what was offered that it takes (ciphers, groups), or misses a client certificate"
	case 42, 43, 44, 45, 46:
		return "the server does not take the client certificate, or misses one"
	case 48:
		return "the server does not trust who signed the client certificate"
	case 49:
		return "the server does not let this client in"
	case 70:
		return "the server speaks none of the versions of TLS that are asked for"
	case 80:
		return "the server failed by itself"
	case 112:
		return "the server has nothing of that name"
	case 116:
		return "the server demands a client certificate, and got none"
	case 120:
		return "the server speaks none of the protocols that were offered"
	}
	return "the server broke off"
}
