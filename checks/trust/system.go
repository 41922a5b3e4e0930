package trust

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
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
	again  time.Time // when to read again what was being written; zero: nothing was
	pool   *x509.CertPool
}

var system = new(store)

// rest is how long is waited for who writes a store.
const rest = time.Second

// roots gives the pool of all authorities, the same one as long as nothing has changed, and says whether there are any.
// What is of no use, as while it is being written, leaves what was read before.
func (s *store) roots() (pool *x509.CertPool, some bool) {
	files, dirs := places()
	var now []stamp
	for _, path := range slices.Concat(files, dirs) {
		now = append(now, stampOf(path))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if due := !s.again.IsZero() && time.Now().After(s.again); s.pool == nil || due || !slices.Equal(s.stamps, now) {
		read, whole := authorities(files, dirs)
		if s.stamps, s.again = now, (time.Time{}); !whole {
			s.again = time.Now().Add(rest)
		}
		if s.pool == nil || whole && !read.Equal(x509.NewCertPool()) && !read.Equal(s.pool) {
			s.pool = read
		}
	}
	return s.pool, !s.pool.Equal(x509.NewCertPool())
}

// authorities reads the first of the files that is there, and all that is in the directories; it is whole unless one
// of them is being written. What is no certificate is passed over.
func authorities(files, dirs []string) (pool *x509.CertPool, whole bool) {
	if i := slices.IndexFunc(files, func(f string) bool { return stampOf(f) != stamp{} }); i >= 0 {
		files = files[i : i+1 : i+1]
	}
	for _, dir := range dirs {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if path := filepath.Join(dir, e.Name()); !beside(path) && !slices.Contains(files, path) {
				files = append(files, path)
			}
		}
	}
	pool, whole = x509.NewCertPool(), true
	for _, path := range files {
		if text, err := content(path); err == nil {
			whole = whole && blocksOf(text) != nil
			pool.AppendCertsFromPEM(text)
		}
	}
	return pool, whole
}

// beside says whether a path is a link to another one of its directory, such as those that are named by a hash.
func beside(path string) bool {
	to, err := os.Readlink(path)
	return err == nil && !strings.Contains(to, "/")
}
