// Package trust is what every check that speaks TLS has in common: whom it trusts, who it is itself, and
// how it tells people why a handshake failed.
package trust

import (
	"crypto/tls"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"vouch/checks"
)

// maxDays is the most that min_cert_days can sensibly ask for.
const maxDays = 3650

// A Spec is the part of a check's table that is about TLS; it is embedded in the Spec of each.
//
// A certificate that is soon to end is a failure like any other: whoever wants to be told, and to keep what
// is announced, puts min_cert_days into a check of its own with on_fail = "warn".
type Spec struct {
	Verify      *bool  `toml:"verify"`                   // whether the server's certificate must be valid; default true
	CA          string `toml:"ca"`                       // PEM file of those trusted; default: the system's
	Cert        string `toml:"cert"`                     // PEM file of the client's certificate, for a server that asks
	Key         string `toml:"key"`                      // PEM file of its key
	ServerName  string `toml:"server_name"`              // SNI, and the name that the certificate must have
	MinCertDays int    `toml:"min_cert_days" empty:"ok"` // least days that the certificate, and the chain if verified, are still valid
}

// Idle refuses what is written of it, for a check that speaks no TLS: in one problem, as it is one mistake. What says why it
// has no effect.
func (s *Spec) Idle(what, wayOut string) []checks.Problem {
	keys := s.written()
	if len(keys) == 0 {
		return nil
	}
	if more := keys[1:]; len(more) > 0 {
		what += ", nor has " + strings.Join(more, ", ")
	}
	return []checks.Problem{{Key: keys[0], What: what, WayOut: wayOut}}
}

// written gives the keys that are.
func (s *Spec) written() (keys []string) {
	for _, k := range []struct {
		key string
		set bool
	}{
		{"verify", s.Verify != nil}, {"ca", s.CA != ""}, {"cert", s.Cert != ""}, {"key", s.Key != ""},
		{"server_name", s.ServerName != ""}, {"min_cert_days", s.MinCertDays != 0},
	} {
		if k.set {
			keys = append(keys, k.key)
		}
	}
	return keys
}

// Verifies says whether the server's certificate must be valid.
func (s *Spec) Verifies() bool { return s.Verify == nil || *s.Verify }

// Problems sets the default of verify, for a check that speaks TLS, and gives all that is wrong, without a look
// at the files.
func (s *Spec) Problems() []checks.Problem {
	verify := s.Verifies()
	s.Verify = &verify
	ps := s.fileProblems()
	if what := wrongName(s.ServerName); s.ServerName != "" && what != "" {
		ps = append(ps, checks.Problem{Key: "server_name", Got: s.ServerName, What: what,
			WayOut: `write a name as it is in the certificate, such as "www.example.com", or an IP address`})
	}
	if s.MinCertDays < 0 || s.MinCertDays > maxDays {
		ps = append(ps, checks.Problem{Key: "min_cert_days", Got: fmt.Sprint(s.MinCertDays),
			What: fmt.Sprintf("must be from 0 to %d", maxDays), WayOut: "write such as 14"})
	}
	return ps
}

// fileProblems gives no more than one for each file, and one for a pair of which half is missing.
func (s *Spec) fileProblems() (ps []checks.Problem) {
	idle := !s.Verifies() && s.CA != ""
	if idle {
		ps = append(ps, checks.Problem{Key: "ca", Got: s.CA, What: "has no effect with verify = false", WayOut: "remove one of them"})
	}
	half := (s.Cert == "") != (s.Key == "")
	for _, f := range []struct {
		key, path string
		passed    bool
	}{{"ca", s.CA, idle}, {"cert", s.Cert, half}, {"key", s.Key, half}} {
		if f.path != "" && !f.passed && !filepath.IsAbs(f.path) {
			ps = append(ps, checks.Problem{Key: f.key, Got: f.path, What: "must be an absolute path", WayOut: `write such as "/etc/vouch/` + filepath.Base(f.path) + `"`})
		}
	}
	if half {
		key, other := "cert", "key"
		if s.Cert == "" {
			key, other = other, key
		}
		ps = append(ps, checks.Problem{Key: key, Got: s.Cert + s.Key, What: "needs " + other + " as well", WayOut: "name both PEM files, by absolute paths"})
	}
	return ps
}

// NameProblems refuses a Spec that has no server_name to verify, for a check that knows no other name: the
// address that is connected to says nothing about whose certificate is right.
func (s *Spec) NameProblems() []checks.Problem {
	if s.ServerName != "" || !s.Verifies() {
		return nil
	}
	return []checks.Problem{{Key: "server_name", What: "is missing: without it no certificate can be the right one",
		WayOut: `write the name that the certificate must have, such as "www.example.com", or verify = false`}}
}

// wrongName says why no certificate can be for that name, or "".
func wrongName(name string) string {
	if _, err := netip.ParseAddr(name); err == nil {
		return ""
	}
	if _, err := netip.ParseAddrPort(name); err == nil {
		return "must be without a port"
	}
	if strings.HasPrefix(name, "*") {
		return "must be the name of one host: the certificate may have a wildcard, which is not to be asked for"
	}
	for _, r := range name {
		switch {
		case r > 0x7e:
			return "must be in ASCII, as it goes over the wire (xn--…)"
		case r != '-' && r != '_' && r != '.' && (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'z'):
			return "must be a DNS name or an IP address"
		}
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		if label == "" || len(label) > 63 {
			return "must be a DNS name or an IP address"
		}
	}
	return ""
}

// files names those that are configured.
func (s *Spec) files() string {
	named := slices.DeleteFunc([]string{s.CA, s.Cert, s.Key}, func(path string) bool { return path == "" })
	return strings.Join(named, ", ")
}

// Client gives a client for a server that is called name where server_name is not set, and that is
// offered these protocols. It opens nothing.
func (s *Spec) Client(name string, alpn ...string) *Client {
	if s.ServerName != "" {
		name = s.ServerName
	}
	return &Client{spec: *s, name: name, alpn: alpn, MinVersion: tls.VersionTLS12}
}
