package trust

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/BurntSushi/toml"

	"vouch/checks"
	"vouch/checks/checktest"
)

func told(ps []checks.Problem) string {
	var out []string
	for _, p := range ps {
		out = append(out, p.Key+": "+p.What)
		if p.WayOut == "" {
			out = append(out, p.Key+" has no way out")
		}
	}
	return strings.Join(out, "|")
}

func TestProblems(t *testing.T) {
	for text, want := range map[string]string{
		``:                                   "",
		`server_name = "www.example.com"`:    "",
		`server_name = "a_b.example."`:       "",
		`server_name = "192.0.2.1"`:          "",
		`server_name = "2001:db8::1"`:        "",
		`server_name = "192.0.2.1:443"`:      "server_name: must be without a port",
		`server_name = "[::1]:443"`:          "server_name: must be without a port",
		`server_name = "www.example.com:80"`: "server_name: must be a DNS name or an IP address",
		`server_name = "*.example.com"`:      "server_name: must be the name of one host: the certificate may have a wildcard, which is not to be asked for",
		`server_name = "bücher.example"`:     "server_name: must be in ASCII, as it goes over the wire (xn--…)",
		`server_name = "a..b"`:               "server_name: must be a DNS name or an IP address",
		`min_cert_days = -1`:                 "min_cert_days: must be from 0 to 3650",
		`min_cert_days = 3651`:               "min_cert_days: must be from 0 to 3650",
		"verify = false\nmin_cert_days = 14": "",
		"verify = false\nca = \"/ca.pem\"":   "ca: has no effect with verify = false",
		"verify = true\nca = \"/ca.pem\"":    "",
		`cert = "/c.pem"`:                    "cert: needs key as well",
		`key = "/k.pem"`:                     "key: needs cert as well",
		`cert = "c.pem"`:                     "cert: needs key as well",
		`key = "k.pem"`:                      "key: needs cert as well",
		"verify = false\nca = \"ca.pem\"":    "ca: has no effect with verify = false",
		"cert = \"c.pem\"\nkey = \"/k.pem\"": "cert: must be an absolute path",
		"ca = \"x\"\nmin_cert_days = -1":     "ca: must be an absolute path|min_cert_days: must be from 0 to 3650",
	} {
		s := new(Spec)
		if md, err := toml.Decode(text, s); err != nil || len(md.Undecoded()) > 0 {
			t.Fatalf("%s: %v, %v", text, err, md.Undecoded())
		}
		if got := told(s.Problems()); got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
		if s.Verify == nil {
			t.Errorf("%s: verify has no default", text)
		}
	}
}

func TestNameProblems(t *testing.T) {
	no := false
	for _, c := range []struct {
		spec Spec
		want string
	}{
		{Spec{}, "server_name: is missing: without it no certificate can be the right one"},
		{Spec{ServerName: "x"}, ""},
		{Spec{Verify: &no}, ""},
	} {
		if got := told(c.spec.NameProblems()); got != c.want {
			t.Errorf("%+v: %s", c.spec, got)
		}
	}
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.pem")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLocal(t *testing.T) {
	ca := checktest.NewCA(t)
	good, other := ca.Issue(t, "client"), ca.Issue(t, "other")
	expired, early := ca.Issue(t, "client", checktest.Expired), ca.Issue(t, "client", checktest.NotYet)
	for name, c := range map[string]struct {
		spec Spec
		want string // how each problem begins
	}{
		"all is well":        {Spec{CA: ca.File, Cert: good.CertFile, Key: good.KeyFile}, ""},
		"no ca":              {Spec{CA: "/nowhere/ca.pem"}, "ca: is not there"},
		"ca is a directory":  {Spec{CA: t.TempDir()}, "ca: is of no use: is a directory"},
		"ca is empty":        {Spec{CA: file(t, "")}, "ca: is of no use: it has no PEM certificate in it"},
		"ca is a key":        {Spec{CA: good.KeyFile}, "ca: is of no use: it has no PEM certificate in it"},
		"both":               {Spec{CA: "/nowhere/ca.pem", Cert: "/nowhere/c", Key: good.KeyFile}, "ca: is not there|cert: is not there"},
		"no key":             {Spec{CA: ca.File, Cert: good.CertFile, Key: "/nowhere/k"}, "key: is not there"},
		"another's key":      {Spec{CA: ca.File, Cert: good.CertFile, Key: other.KeyFile}, "key: is of no use: private key does not match public key"},
		"the wrong way":      {Spec{CA: ca.File, Cert: good.KeyFile, Key: good.CertFile}, "cert: is of no use: it has no PEM certificate in it"},
		"cert twice":         {Spec{CA: ca.File, Cert: good.CertFile, Key: good.CertFile}, "key: is of no use: it has no PEM key in it"},
		"rubbish in cert":    {Spec{CA: ca.File, Cert: file(t, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), Key: good.KeyFile}, "cert: is of no use: malformed certificate"},
		"half a ca":          {Spec{CA: file(t, both(t, ca.File)+both(t, ca.File)[:300])}, "ca: is of no use: it has a PEM block that is cut or damaged"},
		"one bad ca":         {Spec{CA: file(t, both(t, ca.File)+"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")}, "ca: is of no use: malformed certificate"},
		"half a chain":       {Spec{CA: ca.File, Cert: file(t, both(t, good.CertFile)+both(t, ca.File)[:300]), Key: good.KeyFile}, "cert: is of no use: it has a PEM block that is cut or damaged"},
		"a chain of rubbish": {Spec{CA: ca.File, Cert: file(t, both(t, good.CertFile)+"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), Key: good.KeyFile}, "cert: is of no use: malformed certificate"},
		"half a key":         {Spec{CA: ca.File, Cert: good.CertFile, Key: file(t, both(t, good.KeyFile)[:100])}, "key: is of no use: it has a PEM block that is cut or damaged"},
		"all in one":         {Spec{CA: ca.File, Cert: file(t, both(t, good.KeyFile, good.CertFile)), Key: file(t, both(t, good.CertFile, good.KeyFile))}, ""},
		"a passphrase":       {Spec{CA: ca.File, Cert: good.CertFile, Key: file(t, "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n")}, "key: is of no use: it is protected by a passphrase"},
		"an old passphrase":  {Spec{CA: ca.File, Cert: good.CertFile, Key: file(t, "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END EC PRIVATE KEY-----\n")}, "key: is of no use: it is protected by a passphrase"},
		"expired":            {Spec{CA: ca.File, Cert: expired.CertFile, Key: expired.KeyFile}, "cert: expired " + date(expired.Leaf.NotAfter)},
		"not yet valid":      {Spec{CA: ca.File, Cert: early.CertFile, Key: early.KeyFile}, "cert: is not valid before " + date(early.Leaf.NotBefore)},
		"the system's roots": {Spec{}, ""},
	} {
		got := told(c.spec.Local())
		if _, some := system.roots(); !some && name == "the system's roots" {
			c.want = "ca: is missing"
		}
		gots, wants := strings.Split(got, "|"), strings.Split(c.want, "|")
		if len(gots) != len(wants) {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
			continue
		}
		for i := range wants {
			if !strings.HasPrefix(gots[i], wants[i]) || (wants[i] == "") != (gots[i] == "") {
				t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
			}
		}
	}
}

// Files that another has no right to read are told apart from those that are not there.
func TestLocalDenied(t *testing.T) {
	p := fileProblem(&fileError{"key", "/etc/k.pem", os.ErrPermission})
	if got := told(p); got != "key: may not be read by this process" {
		t.Error(got)
	}
}

// A renewed file is read again; what has not changed is not. A file on this node that is of no use says
// nothing about the server.
func TestConfigFollowsFiles(t *testing.T) {
	ca := checktest.NewCA(t)
	one, two := ca.Issue(t, "client"), ca.Issue(t, "client")
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	put := func(from, to string) {
		t.Helper()
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to+".new", text, 0o600)
		}
		if err == nil { // the same second, perhaps the same size: only the inode tells
			at := time.Unix(1e9, 0)
			err = os.Chtimes(to+".new", at, at)
		}
		if err == nil {
			err = os.Rename(to+".new", to)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put(one.CertFile, cert)
	put(one.KeyFile, key)
	client := (&Spec{CA: ca.File, Cert: cert, Key: key}).Client("x")
	first, err := client.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := client.Config(t.Context()); err != nil || again != first {
		t.Errorf("read again for nothing (%v)", err)
	}
	put(two.CertFile, cert)
	half, err := client.Config(t.Context())
	if err != nil || half != first {
		t.Errorf("half renewed: %v", err)
	}
	fresh := (&Spec{CA: ca.File, Cert: cert, Key: key}).Client("x")
	_, err = fresh.Config(t.Context())
	if r := (checks.Result{Start: time.Now(), Err: err}); r.Reason() != checks.ReasonUnknown || !strings.Contains(err.Error(), "key "+key+": private key does not match") {
		t.Errorf("begun half renewed: %v", err)
	}
	put(two.KeyFile, key)
	second, err := client.Config(t.Context())
	if err != nil || !second.Certificates[0].Leaf.Equal(two.Leaf) {
		t.Errorf("renewed: %v", err)
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	var seen strings.Builder
	ctx := checks.WithTrace(t.Context(), func(_ checks.Direction, text string) { seen.WriteString(text) })
	if gone, err := client.Config(ctx); err != nil || gone != second || seen.String() != "key "+key+": no such file or directory: going on with what was read before" {
		t.Errorf("gone: %v, told: %s", err, &seen)
	}
	if _, err := fresh.Config(t.Context()); err == nil || !strings.Contains(err.Error(), "unknown: key "+key+": no such file") {
		t.Errorf("gone from the beginning: %v", err)
	}
}

// A bundle is read whole or not at all, wherever it is cut or broken.
func TestCut(t *testing.T) {
	one, two := checktest.NewCA(t), checktest.NewCA(t)
	text := both(t, one.File, two.File)
	first := len(both(t, one.File))
	for n := range len(text) {
		if n == first || n == first-1 || n == 0 { // the first one alone, or nothing, is whole too
			continue
		}
		if blocks := blocksOf([]byte(text[:n])); blocks != nil && n < len(text)-1 {
			t.Errorf("cut after %d of %d bytes (%q): %d blocks", n, len(text), text[max(0, n-20):n], len(blocks))
		}
	}
	for name, text := range map[string]string{
		"a letter too many": strings.Replace(text, "\nMII", "\n!MII", 1),
		"a byte order mark": byteOrder + text,
		"no end":            strings.Replace(text, "-----END CERTIFICATE-----\n", "", 1),
		"another end":       strings.Replace(text, "END CERTIFICATE", "END X", 1),
	} {
		if blocks := blocksOf([]byte(text)); blocks != nil {
			t.Errorf("%s: %d blocks", name, len(blocks))
		}
	}
	for name, text := range map[string]string{
		"as it is": text, "with words": "Subject: one\n" + text + "# the end", "with CR LF": strings.ReplaceAll(text, "\n", "\r\n"),
		"one left out": text + "# -----BEGIN CERTIFICATE-----\n# MII\n",
	} {
		if blocks := blocksOf([]byte(text)); len(blocks) != 2 {
			t.Errorf("%s: %d blocks", name, len(blocks))
		}
	}
}

func both(t *testing.T, files ...string) (all string) {
	t.Helper()
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all += string(text)
	}
	return all
}

// What would never end, or wait for another process, is not opened.
func TestNoFiles(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo.pem")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	large := file(t, strings.Repeat("x", 4<<20+1))
	for path, want := range map[string]string{fifo: "it is no regular file", "/dev/zero": "it is no regular file", large: "it is larger than 4 MiB"} {
		for key, s := range map[string]Spec{"ca": {CA: path}, "cert": {Cert: path, Key: path}} {
			if got := told(s.Local()); got != key+": is of no use: "+want {
				t.Errorf("%s: %s", path, got)
			}
			if _, err := s.Client("x").Config(t.Context()); err == nil || err.Error() != "unknown: "+key+" "+path+": "+want {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}

// A file system that hangs does not hold a check, and is not asked again before it has come back.
func TestHangs(t *testing.T) {
	ca := checktest.NewCA(t)
	client := (&Spec{CA: ca.File, Cert: "/x/c.pem", Key: "/x/k.pem"}).Client("x")
	client.under = make(chan struct{}) // a look that never ends
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Config(ctx); err == nil || err.Error() != "unknown: the file system of "+ca.File+", /x/c.pem, /x/k.pem does not answer" {
		t.Error(err)
	}
	good := (&Spec{CA: ca.File}).Client("x")
	first, err := good.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	good.under = make(chan struct{})
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if again, err := good.Config(ctx); err != nil || again != first {
		t.Errorf("%v, %v", again, err)
	}
}

func TestOldestVersion(t *testing.T) {
	conf, err := new(Spec).Client("x").Config(t.Context())
	if err != nil || conf.MinVersion != 0x0303 || conf.ClientSessionCache != nil || conf.InsecureSkipVerify {
		t.Errorf("%+v, %v", conf, err)
	}
}
