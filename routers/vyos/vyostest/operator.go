package vyostest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"vouch/routers/command"
	"vouch/routers/vyos/vyostest/store"
	"vouch/routers/vyos/vyostest/tree"
)

// HoldLock has another process hold the lock of commits, as long as it is told or until release is called,
// which returns when the lock is free.
func (s *System) HoldLock(args ...string) (release func()) {
	s.tb.Helper()
	r, w, err := os.Pipe()
	s.must(err)
	path := s.Path(store.Hidden + "/hold")
	p, err := os.StartProcess(path, append([]string{path}, args...), &os.ProcAttr{Files: []*os.File{nil, w, nil}})
	s.must(errors.Join(err, w.Close()))
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil || line != "held\n" {
		s.tb.Fatalf("vyostest: the lock was not free: %v", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = p.Wait()
		_ = r.Close()
	}()
	release = func() {
		_ = p.Kill()
		<-done
	}
	s.tb.Cleanup(release)
	return release
}

// HoldUp has the next run of a verb begin only once release is called, or the test ends. Waiting returns when it has come.
func (s *System) HoldUp(verb string) (waiting, release func()) {
	s.tb.Helper()
	file := s.Path(store.Hidden + "/go-" + verb)
	if err := os.Remove(file); !errors.Is(err, os.ErrNotExist) {
		s.must(err)
	}
	s.Fault(HeldUp, 1, verb, file)
	waiting = func() {
		s.tb.Helper()
		for until := time.Now().Add(time.Minute); s.store.Left(HeldUp) > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(until) {
				s.tb.Fatalf("vyostest: nobody runs %s", verb)
			}
		}
	}
	release = func() { s.tb.Helper(); s.must(os.WriteFile(file, nil, 0o644)) }
	s.tb.Cleanup(release)
	return waiting, release
}

// Locked says whether somebody holds the lock of commits.
func (s *System) Locked() bool {
	s.tb.Helper()
	f, err := os.OpenFile(s.Path(store.LockFile), os.O_RDWR, 0)
	s.must(err)
	defer f.Close()
	l := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
	s.must(syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &l))
	return l.Type != syscall.F_UNLCK
}

// Stale leaves the directories of a session of which the mount is gone, as a crash does.
func (s *System) Stale(id string) {
	s.tb.Helper()
	s.must(store.Session{Store: s.store, ID: id}.Open(false))
}

// Left leaves a whole session, mounted, as an agent that was killed does.
func (s *System) Left(id string, edits ...string) {
	s.tb.Helper()
	session := store.Session{Store: s.store, ID: id}
	s.must(session.Open(true))
	var all []store.Edit
	for _, e := range edits {
		all = append(all, edit(e))
	}
	s.must(session.SetEdits(all))
}

// edit reads "set PATH" or "delete PATH".
func edit(text string) store.Edit {
	verb, path, _ := strings.Cut(text, " ")
	return store.Edit{Delete: verb == "delete", Path: path}
}

// An Operator is a person in configuration mode, in a session of his own.
type Operator struct {
	s   *System
	id  string
	env []string
}

// Operator has a person begin to configure.
func (s *System) Operator() *Operator {
	s.tb.Helper()
	id := "operator" + strconv.FormatInt(time.Now().UnixNano(), 36)
	o := &Operator{s: s, id: id, env: append(s.Env(), s.Session(id)...)}
	o.run("/usr/bin/cli-shell-api", "setupSession")
	return o
}

// Session gives the variables of a session by its name, as getSessionEnv prints them for a shell.
func (s *System) Session(id string) []string {
	session := store.Session{Store: s.store, ID: id}
	return []string{"VYATTA_ACTIVE_CONFIGURATION_DIR=" + s.Path(store.ActiveDir), "VYATTA_CHANGES_ONLY_DIR=" + session.Change(),
		"VYATTA_TEMP_CONFIG_DIR=" + session.Work(), "VYATTA_CONFIG_TMP=" + session.Tmp(),
		"VYATTA_CONFIG_TEMPLATE=" + s.Path("/opt/vyatta/share/vyatta-cfg/templates")}
}

// run runs a program as the operator, in the group.
func (o *Operator) run(path string, args ...string) command.Output {
	o.s.tb.Helper()
	out, err := o.program(path, args...)
	o.s.must(err)
	return out
}

func (o *Operator) program(path string, args ...string) (command.Output, error) {
	line := "umask 0002; exec " + tree.Quote(append([]string{o.s.Path(path)}, args...))
	return command.Run(o.s.tb.Context(), command.Spec{Path: o.s.Path("/usr/bin/sg"), Args: []string{"vyattacfg", "-c", line}, Env: o.env})
}

// Edit does "set PATH" and "delete PATH", one after the other.
func (o *Operator) Edit(commands ...string) {
	o.s.tb.Helper()
	for _, c := range commands {
		e := edit(c)
		path := "/opt/vyatta/sbin/my_set"
		if e.Delete {
			path = "/opt/vyatta/sbin/my_delete"
		}
		if out := o.run(path, tree.Names(e.Path)...); out.Code != 0 {
			o.s.tb.Fatalf("vyostest: operator: %s: %d: %s", c, out.Code, out.Stdout)
		}
	}
}

// Commit commits, again while somebody else does.
func (o *Operator) Commit() {
	o.s.tb.Helper()
	o.s.must(o.commit())
}

func (o *Operator) commit() error {
	for {
		out, err := o.program("/opt/vyatta/sbin/my_commit")
		switch {
		case err != nil || out.Code == 0:
			return err
		case !strings.Contains(string(out.Stdout), "locked"):
			return fmt.Errorf("operator: commit: %d: %s", out.Code, out.Stdout)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Committing begins a Commit that has the lock by now, and ends it with release. In the style RerenderLate nothing
// holds a commit up: there it has ended by now.
func (o *Operator) Committing() (release func()) {
	o.s.tb.Helper()
	waiting, free := o.s.HoldUp("protocols_static.py")
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := o.commit(); err != nil {
			o.s.tb.Errorf("vyostest: %v", err)
		}
	}()
	release = func() { o.s.tb.Helper(); free(); <-done }
	o.s.tb.Cleanup(release)
	waiting()
	return release
}

// Discard forgets the edits.
func (o *Operator) Discard() { o.s.tb.Helper(); o.run("/opt/vyatta/sbin/my_discard") }

// Exit ends the session.
func (o *Operator) Exit() { o.s.tb.Helper(); o.run("/usr/bin/cli-shell-api", "teardownSession") }

// OperatorCommit has a person make changes: "set PATH", "delete PATH".
func (s *System) OperatorCommit(commands ...string) {
	s.tb.Helper()
	o := s.Operator()
	defer o.Exit()
	o.Edit(commands...)
	o.Commit()
}

// CommitConfirm is OperatorCommit that waits to be confirmed. Revert makes everything as it was before,
// whatever was committed since; Confirm keeps it.
func (s *System) CommitConfirm(commands ...string) (confirm, revert func()) {
	s.tb.Helper()
	before, err := s.store.Active()
	s.must(errors.Join(err, s.store.Write(store.Timer, "[Timer]\nOnActiveSec=600\n", 0o644)))
	s.OperatorCommit(commands...)
	confirm = func() { s.must(os.Remove(s.Path(store.Timer))) }
	return confirm, func() {
		confirm()
		after, err := s.store.Active()
		s.must(err)
		o := s.Operator()
		defer o.Exit()
		session := store.Session{Store: s.store, ID: o.id}
		var all []store.Edit
		for _, d := range tree.Diff(after, before) {
			all = append(all, edit(strings.ReplaceAll(d, "'", "")))
		}
		s.must(session.SetEdits(all))
		o.Commit()
	}
}

// Vtysh runs commands in FRR behind VyOS's back.
func (s *System) Vtysh(commands ...string) string {
	s.tb.Helper()
	set, err := s.store.Settings()
	s.must(err)
	args := append(slices.Clone(set.Vtysh[1:]), "--vty_socket", set.SocketDir)
	for _, c := range commands {
		args = append(args, "-c", c)
	}
	out, err := command.Run(s.tb.Context(), command.Spec{Path: set.Vtysh[0], Args: args})
	s.must(err)
	if out.Code != 0 {
		s.must(fmt.Errorf("vtysh: %d: %s%s", out.Code, out.Stdout, out.Stderr))
	}
	return string(out.Stdout)
}

// Gain has FRR get a route that VyOS does not know of, such as "ip route 192.0.2.1/32 blackhole".
func (s *System) Gain(route string) { s.tb.Helper(); s.Vtysh("configure terminal", route) }

// Lose has FRR lose one that VyOS knows of.
func (s *System) Lose(route string) { s.tb.Helper(); s.Vtysh("configure terminal", "no "+route) }
