package trust

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vouch/checks/checktest"
)

// An authority that comes into the system's store is trusted from then on by the checks that run, and one that goes is
// trusted no more; a store that is being written leaves what was there.
func TestSystemChanges(t *testing.T) {
	dir := t.TempDir()
	bundle := filepath.Join(dir, "bundle.pem")
	certs := filepath.Join(dir, "certs")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(certs, 0o755))
	t.Setenv("SSL_CERT_FILE", bundle)
	t.Setenv("SSL_CERT_DIR", certs)
	old := system
	system = new(store)
	defer func() { system = old }()
	var pem [3]string
	var at [3]string
	for i := range pem {
		ca := checktest.NewCA(t)
		pem[i] = both(t, ca.File)
		at[i] = checktest.TLS(t, "127.0.0.1", ca.Issue(t, www).Config(), nil).String()
	}
	client := new(Spec).Client(www)
	client.MinVersion = tls.VersionTLS12
	trusts := func(what string, want ...bool) {
		t.Helper()
		for i, w := range want {
			start := time.Now()
			conn, err := net.Dial("tcp", at[i])
			must(err)
			_ = conn.SetDeadline(start.Add(10 * time.Second))
			_, err = client.Handshake(t.Context(), conn, start)
			_ = conn.Close()
			if (err == nil) != w || err != nil && !strings.Contains(err.Error(), "trusted") {
				t.Errorf("%s: authority %d: %v", what, i, err)
			}
		}
	}
	put := func(path, text string) {
		t.Helper()
		must(os.WriteFile(path+".new", []byte(text), 0o644))
		must(os.Rename(path+".new", path))
	}
	if got := told(new(Spec).Local()); !strings.HasPrefix(got, "ca: is missing") {
		t.Errorf("no store: %q", got)
	}
	trusts("no store", false, false, false)
	put(bundle, pem[0])
	if got := told(new(Spec).Local()); got != "" {
		t.Errorf("a store: %q", got)
	}
	trusts("one", true, false, false)
	put(bundle, pem[0]+pem[1])
	trusts("two", true, true, false)
	before, err := client.Config(context.Background())
	must(err)
	put(bundle, pem[0]+pem[1])
	if after, err := client.Config(context.Background()); err != nil || after.RootCAs != before.RootCAs {
		t.Errorf("the same once more is read as another: %v", err)
	}
	put(bundle, pem[1])
	trusts("the first is gone", false, true, false)
	put(filepath.Join(certs, "local.crt"), pem[2])
	trusts("one in the directory", false, true, true)
	put(bundle, pem[0]+pem[1][:200])
	trusts("being written", false, true, true)
	put(bundle, pem[0])
	trusts("written", true, false, true)
	put(bundle, "")
	must(os.Rename(filepath.Join(certs, "local.crt"), filepath.Join(dir, "aside")))
	system.again = time.Time{}.Add(1)
	trusts("nothing at all is no store", true, false, true)
	must(os.Rename(filepath.Join(dir, "aside"), filepath.Join(certs, "local.crt")))
	put(bundle, pem[0])
	damaged := filepath.Join(certs, "damaged.pem")
	must(os.WriteFile(damaged, []byte(pem[0][:200]), 0o644))
	put(bundle, pem[1])
	trusts("a damaged file", true, false, true)
	system.again = time.Time{}.Add(1) // as if a while had gone by
	trusts("a file that stays damaged", false, true, true)
	put(bundle, pem[0]+pem[1])
	system.again = time.Time{}.Add(1)
	trusts("another change beside it", false, true, true)
	system.again = time.Time{}.Add(1)
	trusts("it is still damaged", true, true, true)
	must(os.Remove(damaged))
	must(os.WriteFile(filepath.Join(certs, "local.crt"), []byte(pem[1]), 0o644))
	put(bundle, pem[0])
	system.again = time.Time{}.Add(1)
	trusts("in place", true, true, false)
	must(os.WriteFile(filepath.Join(certs, "local.crt"), []byte(pem[2]), 0o644))
	system.again = time.Time{}.Add(1)
	trusts("in place again", true, false, true)
	must(os.Remove(bundle))
	trusts("the directory alone", false, false, true)
}
