package vyostest_test

import (
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"vouch/routers/vyos/vyostest"
)

func TestSessionsOfOneUserAreReaped(t *testing.T) {
	t.Parallel()
	r := standin(t, vyostest.Options{Delay: quick})
	s := r.system
	api := s.Path("/usr/bin/cli-shell-api")
	setup := func(uid uint32, id string) {
		t.Helper()
		if got := r.asWith(s.Session(id), uid, vyostest.Group, nil, api, "setupSession"); got.code != 0 {
			t.Fatalf("%+v", got)
		}
	}
	setup(1002, "agent")
	setup(1003, "other")
	setup(0, "root")
	setup(1002, "human")
	if got := s.Sessions(); !slices.Equal(got, []string{"human", "other", "root"}) {
		t.Errorf("sessions %v", got)
	}
	if got := s.Mounted(); len(got) != 3 {
		t.Errorf("mounted %v", got)
	}
	env := s.Session("agent")
	r.steps(env, no("inSession"), says("my_set "+black, 139), says("my_commit", 139))
	setup(0, "again")
	if got := s.Sessions(); len(got) != 4 {
		t.Errorf("root's sessions are cleaned by nobody: %v", got)
	}
}

// Among the sessions of one user that of a vbash is spared as long as the vbash lives.
func TestSessionOfLivingVbashIsSpared(t *testing.T) {
	t.Parallel()
	r := standin(t, vyostest.Options{Delay: quick})
	s := r.system
	setup := func() {
		t.Helper()
		if got := r.asWith(s.Session("agent"), 1002, vyostest.Group, nil, s.Path("/usr/bin/cli-shell-api"), "setupSession"); got.code != 0 {
			t.Fatalf("%+v", got)
		}
	}
	c := exec.Command(s.Path("/bin/vbash"), "-c", "source "+s.Path("/opt/vyatta/etc/functions/script-template")+"\nset "+black+"\nread")
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1002, Gid: vyostest.Group}}
	in, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	human := strconv.Itoa(c.Process.Pid)
	r.await("the human to edit", func() bool { return r.api(s.Session(human), "sessionChanged").code == 0 })
	setup()
	if got := s.Mounted(); !slices.Contains(got, human) || !slices.Contains(got, "agent") {
		t.Errorf("beside a living vbash: %v", got)
	}
	_ = in.Close()
	_ = c.Wait() // read has found the end, and vbash has left its session
	setup()
	if got := s.Sessions(); !slices.Equal(got, []string{"agent"}) {
		t.Errorf("after its end: %v", got)
	}
}

// That a session has something unsaved is known to it alone.
func TestUnsavedIsTheSessions(t *testing.T) {
	t.Parallel()
	r := standin(t, vyostest.Options{Delay: quick})
	env, other := r.session("vouchone"), r.session("vouchother")
	r.steps(env, ok("my_set "+black), ok("my_commit"), ok("sessionUnsaved"))
	r.steps(other, no("sessionUnsaved"), ok("markSessionUnsaved"), ok("sessionUnsaved"), ok("unmarkSessionUnsaved"), no("sessionUnsaved"))
	r.steps(env, ok("save /tmp/config"), ok("sessionUnsaved"), ok("teardownSession"), no("sessionUnsaved"))
	if got := r.vbash("save /tmp/config|" + r.path("/usr/bin/cli-shell-api") + " sessionUnsaved|rc"); got.out != "rc 1\n" {
		t.Errorf("%+v", got)
	}
}
