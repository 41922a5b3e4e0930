package ntp

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"vouch/checks"
	"vouch/checks/checktest"
)

// chrony runs a chronyd that leaves this machine's clock alone, and gives its address. It answers once it is
// up; whether it is told by await.
func chrony(t *testing.T, lines ...string) string {
	t.Helper()
	path, err := exec.LookPath("/usr/sbin/chronyd")
	if err != nil { // the lab's, which the machine's own keeper of the time need not make room for
		path, err = exec.LookPath(filepath.Join(cmp.Or(os.Getenv("VOUCH_LAB_CACHE"), "/var/cache/vouch-lab"), "chrony/usr/sbin/chronyd"))
	}
	if err != nil || os.Geteuid() != 0 {
		const why = "needs chronyd (contrib/lab/roots, or apt install chrony) and root"
		if os.Getenv("CI") == "true" {
			t.Fatal(why)
		}
		t.Skip("SKIPPED: " + why)
	}
	dir, at := t.TempDir(), checktest.Closed(t, "127.0.0.1")
	conf := append([]string{fmt.Sprint("port ", at.Port()), "bindaddress 127.0.0.1", "cmdport 0", "bindcmdaddress /", "pidfile " + filepath.Join(dir, "pid")}, lines...)
	file := filepath.Join(dir, "chrony.conf")
	if err := os.WriteFile(file, []byte(strings.Join(conf, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-x", "-d", "-u", "root", "-f", file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out bytes.Buffer
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("chronyd:\n%s", &out)
		}
	})
	return at.String()
}

// await asks until the server is up and the outcome is of this reason.
func await(t *testing.T, s Spec, reason checks.Reason) error {
	t.Helper()
	for late := time.Now().Add(time.Minute); ; {
		err := probe(t, s, time.Second)
		if got := (checks.Result{Start: time.Now(), Err: err}).Reason(); got == reason {
			return err
		}
		if time.Now().After(late) {
			t.Fatalf("still %v, not %q", err, reason)
		}
	}
}

// A chronyd that follows another is synchronised; the other one, which follows nobody, is not, whatever stratum it was told.
func TestChrony(t *testing.T) {
	first := chrony(t, "allow 127.0.0.1", "local stratum 3")
	const own = "the server is not synchronised: it goes by its own clock alone (reference id 127.127.1.1, stratum 3)"
	for err := error(nil); ; { // it answers at once, and goes by its own clock a moment later
		if err = await(t, Spec{Server: first}, checks.ReasonMismatch); strings.Contains(err.Error(), own) {
			break
		}
	}
	_, port, _ := net.SplitHostPort(first)
	at := chrony(t, "allow 127.0.0.1", "server 127.0.0.1 port "+port+" iburst minpoll -4 maxpoll -4")
	if err := await(t, Spec{Server: at, MaxOffset: time.Minute}, ""); err != nil {
		t.Fatal(err)
	}
	_ = await(t, Spec{Server: at, MaxStratum: 4, MaxRootDistance: time.Second}, "")
	want(t, "stratum", probe(t, Spec{Server: at, MaxStratum: 3}, long), checks.ReasonMismatch, "stratum 4 is more than max_stratum, 3")
}

func TestChronyUnsynchronised(t *testing.T) {
	at := chrony(t, "allow 127.0.0.1")
	err := await(t, Spec{Server: at}, checks.ReasonMismatch)
	want(t, "unsynchronised", err, checks.ReasonMismatch, "the server is not synchronised: stratum 0")
}

// A chronyd that nobody is allowed to ask says nothing.
func TestChronyDenies(t *testing.T) {
	at := chrony(t, "local stratum 3", "allow 192.0.2.1")
	err := await(t, Spec{Server: at}, checks.ReasonTimeout)
	want(t, "denied", err, checks.ReasonTimeout, "no answer within D (sent from 127.0.0.1)")
	var f *checks.Failure
	if !errors.As(err, &f) {
		t.Error(err)
	}
}
