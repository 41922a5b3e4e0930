package checktest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A CA is a throw-away authority that issues certificates as they are met in the field. Its files are in
// the test's temporary directory.
type CA struct {
	File string // PEM file of its own certificate, for a check's key ca

	cert  *x509.Certificate
	key   *ecdsa.PrivateKey
	chain [][]byte // what a server has to send beside the leaf; none of a root
}

// A Pair is a certificate with its key, as a file each and as crypto/tls takes it.
type Pair struct {
	tls.Certificate
	CertFile, KeyFile string // PEM; CertFile has the intermediates too
}

// A Twist changes a certificate before it is signed.
type Twist func(*x509.Certificate)

// NewCA makes a root.
func NewCA(tb testing.TB) *CA {
	tb.Helper()
	ca := newAuthority(tb, "vouch test root")
	ca.sign(tb, ca.cert, ca.key)
	return ca
}

// Intermediate makes an authority that is signed by ca. What it issues comes with its own certificate, and
// is valid for whoever trusts ca.
func (ca *CA) Intermediate(tb testing.TB) *CA {
	tb.Helper()
	sub := newAuthority(tb, "vouch test intermediate")
	sub.sign(tb, ca.cert, ca.key)
	sub.chain = append([][]byte{sub.cert.Raw}, ca.chain...)
	return sub
}

// Issue makes a certificate for name, a DNS name or an IP address, valid for servers and clients for 90
// days from yesterday on, as far as the twists leave it so.
func (ca *CA) Issue(tb testing.TB, name string, twists ...Twist) Pair {
	tb.Helper()
	return issue(tb, name, ca.cert, ca.key, ca.chain, twists)
}

// SelfSigned makes a certificate that nobody else has signed.
func SelfSigned(tb testing.TB, name string, twists ...Twist) Pair {
	tb.Helper()
	return issue(tb, name, nil, nil, nil, twists)
}

// Pool gives a pool with this authority alone.
func (ca *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return pool
}

// Expired has it end an hour ago.
func Expired(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }

// NotYet has it begin in an hour.
func NotYet(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }

// Ends has it end that much from now.
func Ends(d time.Duration) Twist {
	return func(c *x509.Certificate) { c.NotAfter = time.Now().Add(d) }
}

// Also has it be for more names, DNS names or IP addresses.
func Also(names ...string) Twist {
	return func(c *x509.Certificate) {
		for _, name := range names {
			if ip := net.ParseIP(name); ip != nil {
				c.IPAddresses = append(c.IPAddresses, ip)
			} else {
				c.DNSNames = append(c.DNSNames, name)
			}
		}
	}
}

// ForClients has it be good for clients only.
func ForClients(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }

// Bare gives the pair without the intermediates, as servers are misconfigured that send the leaf alone.
func (p Pair) Bare(tb testing.TB) Pair {
	tb.Helper()
	p.Certificate.Certificate = p.Certificate.Certificate[:1]
	p.CertFile = write(tb, "CERTIFICATE", p.Certificate.Certificate...)
	return p
}

// Config gives a server's configuration with the pair.
func (p Pair) Config() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{p.Certificate}}
}

// TLS starts a server as TCP does. It calls serve, which may be nil, for each connection whose handshake
// went well, and keeps a connection after serve until the other side closes it.
func TLS(tb testing.TB, host string, conf *tls.Config, serve func(*tls.Conn)) netip.AddrPort {
	tb.Helper()
	return TCP(tb, host, func(raw net.Conn) {
		conn := tls.Server(raw, conf)
		if conn.Handshake() != nil {
			return
		}
		if serve != nil {
			serve(conn)
		}
		_ = conn.CloseWrite()
		for buf := make([]byte, 1024); ; {
			if _, err := conn.Read(buf); err != nil {
				return
			}
		}
	})
}

// newAuthority makes what is to be signed, with its key.
func newAuthority(tb testing.TB, name string) *CA {
	tb.Helper()
	c := &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	dated(c)
	return &CA{cert: c, key: newKey(tb)}
}

// sign turns the authority's certificate into a signed one.
func (ca *CA) sign(tb testing.TB, parent *x509.Certificate, by *ecdsa.PrivateKey) {
	tb.Helper()
	der, err := x509.CreateCertificate(rand.Reader, ca.cert, parent, &ca.key.PublicKey, by)
	if err != nil {
		tb.Fatalf("the authority: %v", err)
	}
	if ca.cert, err = x509.ParseCertificate(der); err != nil {
		tb.Fatalf("the authority: %v", err)
	}
	ca.File = write(tb, "CERTIFICATE", der)
}

// issue makes a leaf; without a parent it signs itself.
func issue(tb testing.TB, name string, parent *x509.Certificate, by *ecdsa.PrivateKey, chain [][]byte, twists []Twist) Pair {
	tb.Helper()
	c := &x509.Certificate{Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	dated(c)
	Also(name)(c)
	for _, twist := range twists {
		twist(c)
	}
	key := newKey(tb)
	if parent == nil {
		parent, by = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, by)
	if err != nil {
		tb.Fatalf("a certificate for %s: %v", name, err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatalf("the key of %s: %v", name, err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatalf("a certificate for %s: %v", name, err)
	}
	all := append([][]byte{der}, chain...)
	return Pair{Certificate: tls.Certificate{Certificate: all, PrivateKey: key, Leaf: leaf},
		CertFile: write(tb, "CERTIFICATE", all...), KeyFile: write(tb, "PRIVATE KEY", secret)}
}

// dated makes it valid from yesterday on, with a serial number of its own.
func dated(c *x509.Certificate) {
	c.SerialNumber, _ = rand.Int(rand.Reader, big.NewInt(1<<62)) // crypto/rand does not fail
	c.NotBefore = time.Now().Add(-24 * time.Hour)
	c.NotAfter = time.Now().Add(90 * 24 * time.Hour)
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

// write puts blocks into a PEM file that goes with the test.
func write(tb testing.TB, kind string, blocks ...[]byte) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "cert.pem")
	var text []byte
	for _, b := range blocks {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b})...)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}
