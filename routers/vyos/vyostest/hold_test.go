package vyostest_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"vouch/routers/vyos/vyostest"
)

// holdVariable names the file that a copy of this test program locks, as a commit does.
const holdVariable = "VYOSTEST_HOLD"

func TestMain(m *testing.M) {
	if path := os.Getenv(holdVariable); path != "" {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err == nil {
			err = syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK})
		}
		fmt.Println("held", err)
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends it
		return
	}
	if why := unfit(os.Getenv("VYOS_ROOT"), "/", os.Geteuid()); why != "" {
		fmt.Fprintln(os.Stderr, why)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// hold has another process hold the lock of commits until the release.
func hold(r *router) (release func()) {
	r.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), holdVariable+"="+r.path("/opt/vyatta/config/.lock"))
	in, inErr := c.StdinPipe()
	out, outErr := c.StdoutPipe()
	if inErr != nil || outErr != nil || c.Start() != nil {
		r.Fatal("cannot start a process to hold the lock")
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "held <nil>\n" {
		r.Fatalf("the lock was not free: %q, %v", line, err)
	}
	return func() {
		_ = in.Close()
		_ = c.Wait()
	}
}

// as runs a program as another user, with the groups given.
func (r *router) as(uid, gid uint32, groups []uint32, path string, args ...string) result {
	r.Helper()
	return r.asWith(nil, uid, gid, groups, path, args...)
}

func (r *router) asWith(env []string, uid, gid uint32, groups []uint32, path string, args ...string) result {
	r.Helper()
	c := exec.CommandContext(r.Context(), path, args...)
	c.Env = append(append([]string{"PATH=/usr/bin:/bin"}, r.env...), env...)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid, Groups: groups}}
	var out, errs writer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil && c.ProcessState == nil {
		r.Fatal(err)
	}
	code := c.ProcessState.ExitCode()
	if ws, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		code = 128 + int(ws.Signal())
	}
	return result{code, string(out), string(errs)}
}

// start starts a program in a group of its own, and gives what kills the group, and what ends with the program.
func (r *router) start(env []string, path string) (kill func(), done <-chan struct{}) {
	r.Helper()
	c := exec.Command(path)
	c.Env = append(append([]string{"PATH=/usr/bin:/bin"}, r.env...), env...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: &syscall.Credential{Gid: vyostest.Group}}
	if err := c.Start(); err != nil {
		r.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Wait()
	}()
	return func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }, ended
}

type writer []byte

func (w *writer) Write(p []byte) (int, error) { *w = append(*w, p...); return len(p), nil }
