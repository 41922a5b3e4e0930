// Package command runs one program at a time for whoever may not run programs himself: in a process
// group of its own that never outlives the call, with capped output and a minimal environment.
package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// defaultOutput is kept of each stream unless the Spec says otherwise.
	defaultOutput = 64 << 10
	// pipeDelay is how long those whom a program left running may go on holding its output, such as the tee of a
	// script whose output goes through one.
	pipeDelay = 100 * time.Millisecond
	// defaultPath serves when the agent itself was started without a PATH.
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// A Spec says what to run.
type Spec struct {
	Path      string   // absolute, or a name looked up in PATH
	Args      []string // without the program's name
	Env       []string // "KEY=value", added to PATH, LANG=C and LC_ALL=C; the last of a key counts
	Stdin     string   // what it reads; empty: /dev/null
	MaxOutput int      // bytes kept of each stream; 0: 64 KiB
	Tail      bool     // keep the last MaxOutput bytes, not the first
	Group     uint32   // the group id that it runs with, and no other group; 0: those of this process. It needs root
	// ByStatus is for a caller who goes by the exit status, and shows the output to people: then it is no error
	// that the output may not be whole.
	ByStatus bool
}

// An Output is what a program left.
type Output struct {
	Stdout, Stderr []byte
	Truncated      bool           // more was written to a stream than was kept
	Unfinished     bool           // others held a stream when the program had ended by itself, and may have had more to write
	Code           int            // the exit status; -1: it was killed or never ran
	Signal         syscall.Signal // what killed it; 0: nothing did
}

// ErrUnfinished says that a program has ended, but not its output: what it has written by its end is there,
// and what those whom it left running were to write is not.
var ErrUnfinished = errors.New("it ended, but left something running that holds its output, which may not be whole: send the output of that elsewhere")

// Run runs the program to its end, in the namespaces of the calling thread. When ctx ends the whole
// process group is killed (SIGKILL). When the program exits, the children that it left behind have a moment
// to close its output, and are killed; a child that made itself a group of its own escapes that, but does
// not delay the return any longer. The program is killed also when the agent dies. Output beyond the cap is
// read and dropped, so that it never blocks the program.
//
// The error says that the program could not be started (it wraps the cause), that ctx ended it or its output
// (it wraps ctx.Err()), or is ErrUnfinished; a non-zero exit status is no error. Run returns only once the
// program is gone: one that cannot be killed (it changed its user, or sleeps in the kernel) holds it up, and
// it is for the caller not to wait then. Safe for concurrent use.
func Run(ctx context.Context, s Spec) (Output, error) {
	if err := ctx.Err(); err != nil {
		return Output{Code: -1}, fmt.Errorf("%s: %w", s.Path, err)
	}
	// The death signal is sent when the thread that forked ends, so that thread must live as long.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	limit := cmp.Or(s.MaxOutput, defaultOutput)
	stdout, stderr := &capped{max: limit, tail: s.Tail}, &capped{max: limit, tail: s.Tail}
	c, streams, err := launch(s, stdout, stderr)
	if err != nil {
		return Output{Code: -1}, startError(s.Path, err)
	}
	cut, whole, err := wait(ctx, c, streams)
	out := Output{
		Stdout: stdout.bytes(), Stderr: stderr.bytes(),
		Truncated: stdout.cut || stderr.cut, Unfinished: !whole && !cut,
		Code:   c.ProcessState.ExitCode(),
		Signal: signal(c.ProcessState),
	}
	missing := !whole && !s.ByStatus
	switch exit := (*exec.ExitError)(nil); {
	case cut, missing && ctx.Err() != nil:
		err = ctx.Err()
	case err != nil && !errors.As(err, &exit):
	case missing:
		err = ErrUnfinished
	default:
		return out, nil
	}
	return out, fmt.Errorf("%s: %w", s.Path, err)
}

// startDelay is how long the start of one program waits for that of another. A test gives it more.
var startDelay = 500 * time.Millisecond

// starting has a token while a program is started, until this process has let go of its ends of the pipes: another one that
// is forked by then has them too until it is executed, which takes a busy machine longer than pipeDelay, and would be
// taken for something that was left running.
var starting = make(chan struct{}, 1)

// alone has a program started beside no other. One that hangs in its start, as on a dead file system, is not waited for.
func alone(start func() error) error {
	patience := time.NewTimer(startDelay)
	defer patience.Stop()
	select {
	case starting <- struct{}{}:
		defer func() { <-starting }()
	case <-patience.C:
	}
	return start()
}

// launch starts the program, and gives a stream for each of what is to be kept, stdout first.
func launch(s Spec, kept ...*capped) (c *exec.Cmd, streams []*pipe, err error) {
	defer func() {
		if err != nil {
			for _, p := range streams {
				p.drop()
			}
		}
	}()
	c = build(s)
	in, err := input(s)
	if err != nil {
		return nil, nil, err
	}
	if in != nil {
		defer in.Close()
		c.Stdin = in
	}
	for _, k := range kept {
		p, err := newPipe(k)
		if err != nil {
			return nil, streams, err
		}
		streams = append(streams, p)
	}
	c.Stdout, c.Stderr = streams[0].to, streams[1].to
	err = alone(func() error {
		if err := c.Start(); err != nil {
			return err
		}
		for _, p := range streams {
			p.start()
		}
		return nil
	})
	if err != nil {
		return nil, streams, err
	}
	return c, streams, nil
}

// wait reaps a program that was started, and takes the rest of its output; whole says that all of it had ended by
// itself. Cut says that the end of ctx ended the program: one that had ended by itself before the kill met it has an
// exit status to tell, however late this process is to hear of it.
func wait(ctx context.Context, c *exec.Cmd, streams []*pipe) (cut, whole bool, err error) {
	late, whole := waitGroup(ctx, c.Process.Pid, streams)
	err = c.Wait()
	return late && (c.ProcessState == nil || signal(c.ProcessState) == syscall.SIGKILL), whole, err
}

// signal is what killed a process; 0: nothing did, or somebody else reaped it (nil), and Wait says so.
func signal(p *os.ProcessState) syscall.Signal {
	if p == nil {
		return 0
	}
	if ws, ok := p.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return ws.Signal()
	}
	return 0
}

// Look gives the path of the program that Run would start for a Spec with this Path. The error wraps the
// cause and names the program: it is not there, or this process may not run it.
func Look(path string) (string, error) {
	found, err := exec.LookPath(path)
	if err != nil {
		return "", startError(path, err)
	}
	if i := interpreter(found); i != "" {
		if err := unix.Access(i, unix.X_OK); err != nil {
			return "", startError(found, err)
		}
	}
	return found, nil
}

func build(s Spec) *exec.Cmd {
	c := exec.Command(s.Path, s.Args...)
	c.Env = append([]string{"PATH=" + cmp.Or(os.Getenv("PATH"), defaultPath), "LANG=C", "LC_ALL=C"}, s.Env...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if s.Group != 0 && int(s.Group) != os.Getegid() {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(os.Geteuid()), Gid: s.Group, Groups: []uint32{s.Group}}
	}
	return c
}

// startError names the program once, whatever os/exec put around the cause. When the program is there, what
// the kernel did not find is its interpreter.
func startError(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		if found, lookErr := exec.LookPath(path); lookErr == nil {
			return fmt.Errorf("cannot start %s: %w", path, interpreterError(found, err))
		}
	}
	if errors.Is(err, syscall.ENOEXEC) {
		return fmt.Errorf("cannot start %s: %w: a script names its interpreter in its first line, such as #!/bin/sh", path, syscall.ENOEXEC)
	}
	var pe *os.PathError
	var ee *exec.Error
	switch {
	case errors.As(err, &pe):
		err = pe.Err
	case errors.As(err, &ee):
		err = ee.Err
	}
	return fmt.Errorf("cannot start %s: %w", path, err)
}

// interpreterError says that a program is there, and what runs it is not or may not be run.
func interpreterError(path string, err error) error {
	cause := syscall.ENOENT
	if errors.Is(err, fs.ErrPermission) {
		cause = syscall.EACCES
	}
	if i := interpreter(path); i != "" {
		return fmt.Errorf("the interpreter in its first line, %q: %w", i, cause)
	}
	return fmt.Errorf("it is there, but something that it needs is not (is it for another machine?): %w", cause)
}

// interpreter is what the first line of a script names, as the kernel reads it: a carriage return at its end
// is a part of the name. It is empty for other programs.
func interpreter(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	const most = 256 // of the line, execve(2)
	b, _ := io.ReadAll(io.LimitReader(f, most))
	line, _, _ := strings.Cut(string(b), "\n")
	rest, ok := strings.CutPrefix(line, "#!")
	words := strings.FieldsFunc(rest, func(r rune) bool { return r == ' ' || r == '\t' })
	if !ok || len(words) == 0 {
		return ""
	}
	return words[0]
}

// waitGroup waits for the leader of a process group and the end of its output, and leaves nobody alive in the
// group. It reports whether ctx ended by then, and whether the output is whole. The dead leader is not reaped
// here: as long as it is not, its number cannot pass to another group, so the kill meets nobody else.
func waitGroup(ctx context.Context, pid int, streams []*pipe) (late, whole bool) {
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(killed)
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	})
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	whole = settle(ctx, streams)
	if !stop() {
		<-killed
		return true, whole
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	return false, whole
}
