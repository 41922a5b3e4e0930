package vyos

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"vouch/routers"
	"vouch/routers/command"
)

// sessionID names our session. It is always the same, so that what an earlier one left behind is known for ours.
const sessionID = "vouch"

// A session is VyOS's place for changes that are not committed yet.
type session struct {
	system
	id    string
	group uint32
	step  time.Duration // how long one step may take that is no commit
	env   []string
	work  string // the union of the running configuration and the changes
	parts []string
}

// sessionDirs are its three directories, below sessionsDir.
var sessionDirs = []string{"new_config_", "changes_only_", "tmp_"}

// newSession asks VyOS for the environment of a session, and opens nothing.
func newSession(ctx context.Context, s system, id string, group uint32, step time.Duration) (*session, error) {
	text, err := s.api(ctx, "getSessionEnv", id)
	if err != nil {
		return nil, err
	}
	one := &session{system: s, id: id, group: group, step: step}
	vars := parseEnv(text)
	one.work = vars["VYATTA_TEMP_CONFIG_DIR"]
	if filepath.Base(one.work) != sessionDirs[0]+id {
		return nil, routers.Errorf(routers.ErrUnavailable, "getSessionEnv gave no session: %.200q", text)
	}
	for _, name := range sessionDirs {
		one.parts = append(one.parts, filepath.Join(filepath.Dir(one.work), name+id))
	}
	one.env = s.environment()
	for k, v := range vars {
		one.env = append(one.env, k+"="+v)
	}
	return one, nil
}

// assignment is one of the text of a shell that getSessionEnv prints.
var assignment = regexp.MustCompile(`([A-Z_]+)=([^;\s]+)`)

func parseEnv(text string) map[string]string {
	vars := map[string]string{}
	for _, m := range assignment.FindAllStringSubmatch(text, -1) {
		vars[m[1]] = m[2]
	}
	return vars
}

// spec makes what is run of a program. Everybody in the group has to be able to change what it writes.
func (s *session) spec(program string, args ...string) command.Spec {
	return command.Spec{Path: "/bin/sh", Args: append([]string{"-c", `umask 0002; exec "$@"`, "sh", program}, args...),
		Env: s.env, Group: s.group, MaxOutput: 1 << 20, Tail: true}
}

// run runs one step of the session, and kills it when it takes too long.
func (s *session) run(ctx context.Context, program string, args ...string) (command.Output, error) {
	ctx, cancel := context.WithTimeout(ctx, s.step)
	defer cancel()
	out, err := command.Run(ctx, s.spec(program, args...))
	if err != nil {
		return out, routers.Errorf(errors.Join(routers.ErrUnavailable, err), "%s: %w", filepath.Base(program), err)
	}
	return out, nil
}

// lasting runs a program that is never killed, and waits for its end.
func (s *session) lasting(spec command.Spec) (command.Output, error) {
	_, out, err := s.lastingPID(spec)
	return out, err
}

// lastingPID gives its process id too.
func (s *session) lastingPID(spec command.Spec) (pid int, out command.Output, err error) {
	// A file, as vyos-configd writes the reason of a failure to what its caller's stdout is by name.
	// Whoever writes then writes behind that. It has one name, so that what a killed agent leaves is one file.
	f, err := os.OpenFile(s.path("run/vouch-vyos.out"), os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		f, err = os.CreateTemp("", "vouch-*.out")
	}
	if err != nil {
		return 0, command.Output{}, routers.Errorf(errors.Join(routers.ErrUnavailable, err), "%w", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	l, err := command.StartLasting(spec, f)
	if err != nil {
		return 0, command.Output{}, routers.Errorf(errors.Join(routers.ErrUnavailable, err), "%w", err)
	}
	out, err = l.Result()
	if err != nil {
		err = routers.Errorf(errors.Join(routers.ErrUnavailable, err), "%w", err)
	}
	return l.PID(), out, err
}

// open clears away what an earlier session of ours left, and opens a new one, which is whole: VyOS says that it is
// also when it is not.
func (s *session) open(ctx context.Context) error {
	if s.left() {
		if pid := s.user(); pid != 0 {
			return routers.Errorf(routers.ErrBusy, "a commit of an earlier vouch still runs (%s), and is left to end", nameOf(pid))
		}
		if err := s.close(); err != nil {
			return err
		}
	}
	out, err := s.lasting(s.spec(s.path(cliShellAPI), "setupSession")) // what it starts is the mount
	if err != nil {
		return err
	}
	if out.Code != 0 {
		return routers.Errorf(routers.ErrUnavailable, "no configuration session could be opened: exit status %d: %s", out.Code, reason(text(out)))
	}
	if ctx.Err() != nil {
		return routers.Errorf(errors.Join(routers.ErrUnavailable, ctx.Err()), "broken off before anything was changed")
	}
	return s.whole()
}

// left tells whether there is anything of a session of ours.
func (s *session) left() bool {
	for _, dir := range s.parts {
		if _, err := os.Lstat(dir); err == nil {
			return true
		}
	}
	mounted, err := s.mounted(s.work)
	return mounted || err != nil
}

// dead gives the sessions that go by the ids of processes which are gone.
func (s system) dead() []string {
	dirs, _ := filepath.Glob(s.path(sessionsDir, sessionDirs[0]+"*"))
	var dead []string
	for _, dir := range dirs {
		id := strings.TrimPrefix(filepath.Base(dir), sessionDirs[0])
		if pid, err := strconv.Atoi(id); err == nil && syscall.Kill(pid, 0) == syscall.ESRCH {
			dead = append(dead, id)
		}
	}
	return dead
}

// user gives a process that is in our session, 0 for none: a commit that outlived the agent which began it. The
// mount's own has that environment too, and ends only with the session.
func (s *session) user() int {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range all {
		env, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		comm, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "comm"))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if pid != os.Getpid() && !bytes.Contains(comm, []byte("fuse")) && bytes.Contains(env, []byte("VYATTA_TEMP_CONFIG_DIR="+s.work+"\x00")) {
			return pid
		}
	}
	return 0
}

// whole wants the session's union mounted. Without, what shows of the configuration is what was changed alone, and
// a commit takes all else away.
func (s *session) whole() error {
	mounted, err := s.mounted(s.work)
	if err == nil && !mounted {
		err = routers.Errorf(routers.ErrUnavailable, "nothing was committed, as the session is not mounted at %s (unionfs-fuse does not run?): a commit would erase the configuration", s.work)
	}
	return err
}

// close ends the session and sees to it that nothing is left: VyOS says that it ended it also when it did not. It
// does not mind that the time of whoever asked is over.
func (s *session) close() error {
	out, err := s.run(context.Background(), s.path(cliShellAPI), "teardownSession")
	if err != nil || !s.left() {
		return err
	}
	mounted, err := s.mounted(s.work)
	if err != nil {
		return err
	}
	if mounted { // VyOS does not end a session of which the mount's process was killed
		if err := unix.Unmount(s.work, unix.MNT_DETACH); err != nil {
			return routers.Errorf(routers.ErrUnavailable, "the configuration session %s could not be ended (exit status %d: %s; unmount: %w): run umount %s", s.id, out.Code, reason(text(out)), err, s.work)
		}
	}
	for _, dir := range s.parts { // with nothing mounted it is what a session that was cut off left behind
		if rerr := os.RemoveAll(dir); rerr != nil {
			err = errors.Join(err, rerr)
		}
	}
	if err != nil {
		return routers.Errorf(routers.ErrUnavailable, "what a configuration session left could not be removed: %w", err)
	}
	return nil
}

// discard forgets what is in the session. It does not mind that the time of whoever asked is over.
func (s *session) discard() error {
	_, err := s.run(context.Background(), s.program("my_discard"))
	return err
}

// diff is what the session would change, as commands.
func (s *session) diff(ctx context.Context) (string, error) {
	out, err := s.run(ctx, s.path(cliShellAPI), "--show-cfg1", "@ACTIVE", "--show-cfg2", "@WORKING", "--show-commands", "showConfig")
	switch {
	case err != nil:
		return "", err
	case out.Code != 0 || out.Truncated:
		return "", routers.Errorf(routers.ErrUnavailable, "what the session would change cannot be read: exit status %d: %s", out.Code, reason(text(out)))
	}
	return string(out.Stdout), nil
}

// changed tells whether there is anything to commit.
func (s *session) changed(ctx context.Context) (bool, error) {
	out, err := s.run(ctx, s.path(cliShellAPI), "sessionChanged")
	switch {
	case err != nil:
		return false, err
	case out.Code > 1 || out.Signal != 0:
		return false, routers.Errorf(routers.ErrUnavailable, "sessionChanged: exit status %d", out.Code)
	}
	return out.Code == 0, nil
}

// program is the path of one of VyOS's programs for configuring.
func (s *session) program(name string) string { return s.path(sbin, name) }
