package trust

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"vouch/checks"
)

var (
	errNoCertificate = errors.New("it has no PEM certificate in it")
	errNoKey         = errors.New("it has no PEM key in it")
	errPassphrase    = errors.New("it is protected by a passphrase, which nobody could type")
)

// A fileError says which file is of no use, and why.
type fileError struct {
	key, path string // of the Spec
	err       error
}

func (e *fileError) Error() string { return fmt.Sprintf("%s %s: %v", e.key, e.path, e.err) }
func (e *fileError) Unwrap() error { return e.err }

// Local says which of the files cannot be read or hold nothing of use, and whether the client's certificate
// is out of date. It is not to be asked for a check that speaks no TLS.
func (s *Spec) Local() (ps []checks.Problem) {
	_, err := s.roots()
	if err == nil && s.Verifies() && s.CA == "" && noSystemRoots() {
		ps = append(ps, checks.Problem{Key: "ca", What: "is missing, and this machine has no list of authorities of its own",
			WayOut: "install ca-certificates, or name a PEM file"})
	}
	ps = append(ps, fileProblem(err)...)
	pair, err := s.pair()
	ps = append(ps, fileProblem(err)...)
	if pair != nil {
		ps = append(ps, s.dateProblem(pair.Leaf, time.Now())...)
	}
	return ps
}

// dateProblem says whether the client's certificate is out of date.
func (s *Spec) dateProblem(leaf *x509.Certificate, now time.Time) []checks.Problem {
	p := checks.Problem{Key: "cert", Got: s.Cert}
	switch {
	case now.After(leaf.NotAfter):
		p.What, p.WayOut = "expired "+date(leaf.NotAfter), "renew it: the check reads it again by itself"
	case now.Before(leaf.NotBefore):
		p.What, p.WayOut = "is not valid before "+date(leaf.NotBefore), "look at the clock of this node, and of whoever issued it"
	default:
		return nil
	}
	return []checks.Problem{p}
}

func noSystemRoots() bool {
	pool, err := x509.SystemCertPool()
	return err != nil || pool.Equal(x509.NewCertPool())
}

func fileProblem(err error) []checks.Problem {
	var f *fileError
	if !errors.As(err, &f) {
		return nil
	}
	p := checks.Problem{Key: f.key, Got: f.path, What: "is of no use: " + f.err.Error(), WayOut: "name PEM files that belong together"}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		p.What, p.WayOut = "is not there", "write it, or name another"
	case errors.Is(err, fs.ErrPermission):
		p.What, p.WayOut = "may not be read by this process", "give the user that vouch runs as the right to read it"
	case errors.Is(err, errPassphrase):
		p.WayOut = "store it without, readable by vouch alone (openssl pkey)"
	}
	return []checks.Problem{p}
}

// read gives the content of a file; the operation and the path that os puts around its error are told by
// fileError already.
func read(key, path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err == nil {
		return text, nil
	}
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		err = pe.Err
	}
	return nil, &fileError{key, path, err}
}

// roots reads the file of authorities; without one it gives nil, which stands for the system's. Those are
// read once by Go, at the first handshake of the process.
func (s *Spec) roots() (*x509.CertPool, error) {
	if s.CA == "" {
		return nil, nil
	}
	text, err := read("ca", s.CA)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, &fileError{"ca", s.CA, errNoCertificate}
	}
	return pool, nil
}

// pair reads the client's certificate and key; nil without one.
func (s *Spec) pair() (*tls.Certificate, error) {
	if s.Cert == "" {
		return nil, nil
	}
	cert, err := read("cert", s.Cert)
	if err != nil {
		return nil, err
	}
	key, err := read("key", s.Key)
	if err != nil {
		return nil, err
	}
	leaf := find(cert, "CERTIFICATE")
	if leaf == nil {
		return nil, &fileError{"cert", s.Cert, errNoCertificate}
	}
	if _, err := x509.ParseCertificate(leaf.Bytes); err != nil {
		return nil, &fileError{"cert", s.Cert, bare(err)}
	}
	switch secret := find(key, "PRIVATE KEY"); {
	case secret == nil:
		return nil, &fileError{"key", s.Key, errNoKey}
	case secret.Type == "ENCRYPTED PRIVATE KEY", secret.Headers["DEK-Info"] != "":
		return nil, &fileError{"key", s.Key, errPassphrase}
	}
	made, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, &fileError{"key", s.Key, bare(err)}
	}
	return &made, nil
}

// find gives the first block of a PEM text whose type ends so; nil if there is none.
func find(text []byte, kind string) *pem.Block {
	for {
		var b *pem.Block
		if b, text = pem.Decode(text); b == nil || strings.HasSuffix(b.Type, kind) {
			return b
		}
	}
}

// bare takes off the package that an error names first.
func bare(err error) error {
	text := err.Error()
	for _, p := range []string{"tls: ", "x509: "} {
		text = strings.TrimPrefix(text, p)
	}
	return errors.New(text)
}

// A stamp tells one content of a file from another, also when it was replaced within the same second by one
// of the same size.
type stamp struct {
	inode   uint64
	size    int64
	changed syscall.Timespec // of content or inode
}

func stampOf(path string) stamp {
	var st syscall.Stat_t
	if path == "" || syscall.Stat(path, &st) != nil {
		return stamp{}
	}
	return stamp{st.Ino, st.Size, st.Ctim}
}
