package trust

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"vouch/checks"
)

// Where the systems have their authorities: the first of the files that is there, and all of the directories. Go
// (crypto/x509) looks at the same places, but only once in the life of a process, for which an authority that came
// later is never trusted, and one that went is trusted for ever.
var (
	bundles = []string{
		"/etc/ssl/certs/ca-certificates.crt",
		"/etc/pki/tls/certs/ca-bundle.crt",
		"/etc/ssl/ca-bundle.pem",
		"/etc/pki/tls/cacert.pem",
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
		"/etc/ssl/cert.pem",
	}
	directories = []string{"/etc/ssl/certs", "/etc/pki/tls/certs"}
)

// places gives where the authorities of this process's system are; the environment may say so, as it does to Go and
// OpenSSL.
func places() (files, dirs []string) {
	files, dirs = bundles, directories
	if f := os.Getenv("SSL_CERT_FILE"); f != "" {
		files = []string{f}
	}
	if d := os.Getenv("SSL_CERT_DIR"); d != "" {
		dirs = strings.Split(d, ":")
	}
	return files, dirs
}

// A store is the system's authorities, read again when they have changed. It may be used concurrently.
type store struct {
	mu     sync.Mutex
	stamps []stamp
	again  time.Time // when to read again in any case: a file of a directory may change and nothing else
	pool   *x509.CertPool
	half   bool // what was read last was being written, or could not be read for want of something
}

var system = new(store)

// How long is waited for who writes a store, and for a change that no stamp tells.
const (
	rest     = time.Second
	longRest = time.Minute
)

// roots gives the pool of all authorities, the same one as long as nothing has changed, and says whether there are any.
// What is of no use, as while it is being written, leaves what was read before; but a file that stays damaged is passed
// over. It reads files, which may hang.
func (s *store) roots() (pool *x509.CertPool, some bool) {
	files, dirs := places()
	var now []stamp
	for _, path := range slices.Concat(files, dirs) {
		now = append(now, stampOf(path))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if changed := !slices.Equal(s.stamps, now); s.pool == nil || changed || time.Now().After(s.again) {
		read, whole, starved := authorities(files, dirs)
		use := whole || s.half && !changed && !starved
		s.stamps, s.half, s.again = now, !use, time.Now().Add(longRest)
		if s.half {
			s.again = time.Now().Add(rest)
		}
		if s.pool == nil || use && !read.Equal(x509.NewCertPool()) && !read.Equal(s.pool) {
			s.pool = read
		}
	}
	return s.pool, !s.pool.Equal(x509.NewCertPool())
}

// authorities reads the first of the files that is there, and all that is in the directories; it is whole unless one
// of them is damaged, or this process was starved of what it takes to read. What is no certificate is passed over.
func authorities(files, dirs []string) (pool *x509.CertPool, whole, starved bool) {
	if i := slices.IndexFunc(files, func(f string) bool { return stampOf(f) != stamp{} }); i >= 0 {
		files = files[i : i+1 : i+1]
	}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		starved = starved || checks.Starved(err)
		for _, e := range entries {
			if path := filepath.Join(dir, e.Name()); !beside(path) && !slices.Contains(files, path) {
				files = append(files, path)
			}
		}
	}
	pool, whole = x509.NewCertPool(), true
	for _, path := range files {
		text, err := content(path)
		starved = starved || checks.Starved(err)
		if err == nil {
			whole = whole && blocksOf(text) != nil
			pool.AppendCertsFromPEM(text)
		}
	}
	return pool, whole && !starved, starved
}

// beside says whether a path is a link to another one of its directory, such as those that are named by a hash.
func beside(path string) bool {
	to, err := os.Readlink(path)
	return err == nil && !strings.Contains(to, "/")
}
