package trust

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"vouch/checks"
)

var (
	errNoCertificate = errors.New("it has no PEM certificate in it")
	errNoKey         = errors.New("it has no PEM key in it")
	errCut           = errors.New("it has a PEM block that is cut or damaged")
	errIrregular     = errors.New("it is no regular file")
	errTooLarge      = errors.New("it is larger than 4 MiB")
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
	if _, some := system.roots(); err == nil && s.Verifies() && s.CA == "" && !some {
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
	case errors.Is(err, errCut):
		p.WayOut = "write it whole: to a file beside it that is then renamed (mv)"
	case errors.Is(err, errPassphrase):
		p.WayOut = "store it without, readable by vouch alone (openssl pkey)"
	}
	return []checks.Problem{p}
}

// read gives the PEM blocks of a file; the operation and the path that os puts around its error are told by
// fileError already.
func read(key, path string) ([]*pem.Block, error) {
	text, err := content(path)
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		err = pe.Err
	}
	if err != nil {
		return nil, &fileError{key, path, err}
	}
	blocks := blocksOf(text)
	if blocks == nil {
		return nil, &fileError{key, path, errCut}
	}
	return blocks, nil
}

// content reads a file of a sensible size. It opens nothing but a regular file: a pipe would wait for who writes it,
// a device may do anything.
func content(path string) ([]byte, error) {
	const most = 4 << 20
	info, err := os.Stat(path)
	if err == nil {
		err = readable(info)
	}
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err = file.Stat(); err == nil {
		err = readable(info) // it may be another one by now
	}
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if len(text) > most {
		err = errTooLarge
	}
	return text, err
}

func readable(info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return syscall.EISDIR
	case !info.Mode().IsRegular():
		return errIrregular
	}
	return nil
}

// byteOrder is what some editors put before a text, and hides a block that follows it.
const byteOrder = "\ufeff"

// blocksOf gives the PEM blocks of a text, empty if there are none; nil if one of them is not whole, as it is where
// the file is still being written. Package pem passes over those without a word.
func blocksOf(text []byte) []*pem.Block {
	begun, last := 0, ""
	for line := range strings.Lines(string(text)) {
		if last = strings.TrimPrefix(line, byteOrder); strings.HasPrefix(last, "-----BEGIN") {
			begun++
		}
	}
	blocks := []*pem.Block{}
	for b, rest := pem.Decode(text); b != nil; b, rest = pem.Decode(rest) {
		blocks = append(blocks, b)
	}
	if len(blocks) != begun || last != "" && strings.HasPrefix("-----BEGIN", last) {
		return nil
	}
	return blocks
}

// certificates gives those of a file, in its order.
func certificates(key, path string) (all []*x509.Certificate, err error) {
	blocks, err := read(key, path)
	if err != nil {
		return nil, err
	}
	for _, b := range blocks {
		if b.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, &fileError{key, path, bare(err)}
		}
		all = append(all, cert)
	}
	if all == nil {
		return nil, &fileError{key, path, errNoCertificate}
	}
	return all, nil
}

// roots reads the file of authorities; without one it gives the system's. It gives nil where nobody is to be verified.
func (s *Spec) roots() (*x509.CertPool, error) {
	if !s.Verifies() {
		return nil, nil
	}
	if s.CA == "" {
		pool, _ := system.roots()
		return pool, nil
	}
	all, err := certificates("ca", s.CA)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for _, cert := range all {
		pool.AddCert(cert)
	}
	return pool, nil
}

// pair reads the client's certificate and key; nil without one.
func (s *Spec) pair() (*tls.Certificate, error) {
	if s.Cert == "" {
		return nil, nil
	}
	chain, err := certificates("cert", s.Cert)
	if err != nil {
		return nil, err
	}
	blocks, err := read("key", s.Key)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(blocks, func(b *pem.Block) bool { return strings.HasSuffix(b.Type, "PRIVATE KEY") })
	switch {
	case i < 0:
		return nil, &fileError{"key", s.Key, errNoKey}
	case blocks[i].Type == "ENCRYPTED PRIVATE KEY", blocks[i].Headers["DEK-Info"] != "":
		return nil, &fileError{"key", s.Key, errPassphrase}
	}
	var text []byte
	for _, cert := range chain {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})...)
	}
	made, err := tls.X509KeyPair(text, pem.EncodeToMemory(&pem.Block{Type: blocks[i].Type, Bytes: blocks[i].Bytes}))
	if err != nil {
		return nil, &fileError{"key", s.Key, bare(err)}
	}
	return &made, nil
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
