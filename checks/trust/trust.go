// Package trust is what every check that speaks TLS has in common: whom it trusts, who it is itself, and
// how it tells people why a handshake failed.
package trust

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"sync"
	"time"

	"vouch/checks"
)

// A Spec is the part of a check's table that is about TLS; it is embedded in the Spec of each.
type Spec struct {
	Verify      *bool  `toml:"verify"`        // whether the certificate must be valid; default true
	CA          string `toml:"ca"`            // PEM file of those trusted; default: the system's
	Cert        string `toml:"cert"`          // PEM file of the client's certificate, for a server that asks
	Key         string `toml:"key"`           // PEM file of its key
	ServerName  string `toml:"server_name"`   // SNI, and the name that the certificate must have
	MinCertDays int    `toml:"min_cert_days"` // least days that each certificate of the chain is still valid
}

// Set says whether any of it is written, for a check that speaks TLS only at times.
func (s *Spec) Set() bool { return *s != Spec{} }

// Problems gives all that is wrong, without a look at the files.
func (s *Spec) Problems() (ps []checks.Problem) {
	if (s.Cert == "") != (s.Key == "") {
		key, other := "cert", "key"
		if s.Cert == "" {
			key, other = other, key
		}
		ps = append(ps, checks.Problem{Key: key, What: "needs " + other + " as well", WayOut: "name both PEM files"})
	}
	if s.MinCertDays < 0 {
		ps = append(ps, checks.Problem{Key: "min_cert_days", What: "must not be negative", WayOut: "write such as 14"})
	}
	if s.Verify != nil && !*s.Verify && s.CA != "" {
		ps = append(ps, checks.Problem{Key: "ca", What: "has no effect with verify = false", WayOut: "remove one of them"})
	}
	return ps
}

// Local says which of the files cannot be read, or hold nothing of use.
func (s *Spec) Local() (ps []checks.Problem) {
	if _, err := roots(s.CA); err != nil {
		ps = append(ps, checks.Problem{Key: "ca", Got: s.CA, What: err.Error(), WayOut: "name a PEM file that this process may read"})
	}
	if s.Cert != "" {
		if _, err := tls.LoadX509KeyPair(s.Cert, s.Key); err != nil {
			ps = append(ps, checks.Problem{Key: "cert", Got: s.Cert, What: err.Error(), WayOut: "name PEM files that belong together, and that this process may read"})
		}
	}
	return ps
}

// A Client is the client's side of handshakes. It reads its files again when they have changed, so that a
// renewed certificate needs no reload. It may be used concurrently.
type Client struct {
	spec Spec
	name string
	alpn []string

	mu    sync.Mutex
	stamp [3]stamp
	made  *tls.Config
}

// A stamp tells one content of a file from another.
type stamp struct {
	at   time.Time
	size int64
}

// Client gives a client for a server that is called name where server_name is not set, and that is
// offered these protocols. It opens nothing.
func (s *Spec) Client(name string, alpn ...string) *Client {
	if s.ServerName != "" {
		name = s.ServerName
	}
	return &Client{spec: *s, name: name, alpn: alpn}
}

// Config gives what crypto/tls needs, for the caller to keep but not to change. No session is resumed:
// each handshake is a whole one. The error is a *checks.Failure of reason tls.
func (c *Client) Config() (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var now [3]stamp
	for i, path := range []string{c.spec.CA, c.spec.Cert, c.spec.Key} {
		if info, err := os.Stat(path); path != "" && err == nil {
			now[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	if c.made != nil && now == c.stamp {
		return c.made, nil
	}
	made, err := c.read()
	if err != nil {
		return nil, &checks.Failure{Reason: checks.ReasonTLS, Err: err}
	}
	c.made, c.stamp = made, now
	return made, nil
}

func (c *Client) read() (*tls.Config, error) {
	pool, err := roots(c.spec.CA)
	if err != nil {
		return nil, err
	}
	conf := &tls.Config{RootCAs: pool, ServerName: c.name, NextProtos: c.alpn,
		InsecureSkipVerify: c.spec.Verify != nil && !*c.spec.Verify}
	if c.spec.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.spec.Cert, c.spec.Key)
		if err != nil {
			return nil, err
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}

// roots reads a PEM file of certificates; nil without one: the system's.
func roots(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, &os.PathError{Op: "read", Path: path, Err: errNoCertificate}
	}
	return pool, nil
}
