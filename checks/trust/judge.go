package trust

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"vouch/checks"
)

var errNoCertificate = errors.New("no PEM certificate in it")

// Judge wants each certificate that the server sent to stay valid for the days that are configured. It gives
// nil, or a failure of reason tls.
func (c *Client) Judge(state tls.ConnectionState, now time.Time) *checks.Failure {
	if c.spec.MinCertDays == 0 {
		return nil
	}
	least := time.Duration(c.spec.MinCertDays) * 24 * time.Hour
	for _, cert := range state.PeerCertificates {
		if left := cert.NotAfter.Sub(now); left < least {
			return &checks.Failure{Reason: checks.ReasonTLS, Detail: fmt.Sprintf("the certificate of %s ends %s, in %.1f days; min_cert_days is %d",
				subject(cert), cert.NotAfter.UTC().Format(time.RFC3339), left.Hours()/24, c.spec.MinCertDays)}
		}
	}
	return nil
}

// Failure tells people why no secure connection came about; late describes a timeout. What is no matter of
// TLS is classified as checks.NetFailure does.
func Failure(ctx context.Context, late string, err error) *checks.Failure {
	if detail := explain(err); detail != "" {
		return &checks.Failure{Reason: checks.ReasonTLS, Detail: detail}
	}
	return checks.NetFailure(ctx, late, err)
}

// explain gives "" for an error that is none of TLS.
func explain(err error) string {
	var (
		invalid x509.CertificateInvalidError
		name    x509.HostnameError
		unknown x509.UnknownAuthorityError
		alert   tls.AlertError
		record  tls.RecordHeaderError
		verify  *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && time.Now().Before(invalid.Cert.NotBefore):
		return fmt.Sprintf("the certificate of %s is not valid before %s", subject(invalid.Cert), invalid.Cert.NotBefore.UTC().Format(time.RFC3339))
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Sprintf("the certificate of %s expired %s", subject(invalid.Cert), invalid.Cert.NotAfter.UTC().Format(time.RFC3339))
	case errors.As(err, &name):
		return fmt.Sprintf("the certificate is for %s, not for %s", strings.Join(names(name.Certificate), ", "), name.Host)
	case errors.As(err, &unknown):
		return "the certificate is signed by nobody who is trusted: " + unknown.Error()
	case errors.As(err, &invalid):
		return "the certificate is not valid: " + invalid.Error()
	case errors.As(err, &verify):
		return "the certificate is not valid: " + verify.Err.Error()
	case errors.As(err, &record):
		return "the answer is not TLS"
	case errors.As(err, &alert):
		return "the server broke the handshake off: " + alert.Error()
	}
	return ""
}

// Describe tells of a connection for a trace: version, cipher, protocol, and each certificate.
func Describe(state tls.ConnectionState) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", tls.VersionName(state.Version), tls.CipherSuiteName(state.CipherSuite))
	if state.NegotiatedProtocol != "" {
		fmt.Fprintf(&b, " %s", state.NegotiatedProtocol)
	}
	for _, cert := range state.PeerCertificates {
		fmt.Fprintf(&b, "\ncertificate of %s by %s, valid %s to %s", strings.Join(names(cert), ", "), cert.Issuer,
			cert.NotBefore.UTC().Format(time.RFC3339), cert.NotAfter.UTC().Format(time.RFC3339))
	}
	return b.String()
}

// names are those that a certificate is for.
func names(cert *x509.Certificate) []string {
	out := append([]string(nil), cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		out = append(out, ip.String())
	}
	if out == nil {
		out = []string{subject(cert)}
	}
	return out
}

func subject(cert *x509.Certificate) string {
	if s := cert.Subject.String(); s != "" {
		return s
	}
	return "serial " + cert.SerialNumber.String()
}
