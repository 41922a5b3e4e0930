package trust

import (
	"os"
	"path/filepath"
	"strings"
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
		"a passphrase":       {Spec{CA: ca.File, Cert: good.CertFile, Key: file(t, "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n")}, "key: is of no use: it is protected by a passphrase"},
		"an old passphrase":  {Spec{CA: ca.File, Cert: good.CertFile, Key: file(t, "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END EC PRIVATE KEY-----\n")}, "key: is of no use: it is protected by a passphrase"},
		"expired":            {Spec{CA: ca.File, Cert: expired.CertFile, Key: expired.KeyFile}, "cert: expired " + date(expired.Leaf.NotAfter)},
		"not yet valid":      {Spec{CA: ca.File, Cert: early.CertFile, Key: early.KeyFile}, "cert: is not valid before " + date(early.Leaf.NotBefore)},
		"the system's roots": {Spec{}, ""},
	} {
		got := told(c.spec.Local())
		if noSystemRoots() && name == "the system's roots" {
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
	first, err := client.Config()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := client.Config(); err != nil || again != first {
		t.Errorf("read again for nothing (%v)", err)
	}
	put(two.CertFile, cert)
	_, err = client.Config()
	if r := (checks.Result{Start: time.Now(), Err: err}); r.Reason() != checks.ReasonUnknown || !strings.Contains(err.Error(), "key "+key+": private key does not match") {
		t.Errorf("half renewed: %v", err)
	}
	put(two.KeyFile, key)
	second, err := client.Config()
	if err != nil || !second.Certificates[0].Leaf.Equal(two.Leaf) {
		t.Errorf("renewed: %v", err)
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Config(); err == nil || !strings.Contains(err.Error(), "unknown: key "+key+": no such file") {
		t.Errorf("gone: %v", err)
	}
}

func TestOldestVersion(t *testing.T) {
	conf, err := new(Spec).Client("x").Config()
	if err != nil || conf.MinVersion != 0x0303 || conf.ClientSessionCache != nil || conf.InsecureSkipVerify {
		t.Errorf("%+v, %v", conf, err)
	}
}
