package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Lasting is a program that must come to its end, such as one that would leave a router half configured: nothing
// here kills it, nor what it starts.
type Lasting struct {
	spec   Spec
	output *os.File
	cmd    *exec.Cmd
	done   chan struct{}
	result Output
	err    error
}

// StartLasting starts a program in a session of its own, which lives on when this process dies or its terminal
// goes away. What it writes to both of its outputs goes to the file output, of which every end may be closed at
// any time: it is not to be killed by a pipe that nobody reads. The error says that it
// could not be started. Whoever starts it waits for Done.
func StartLasting(s Spec, output *os.File) (*Lasting, error) {
	c := build(s)
	c.SysProcAttr.Setpgid, c.SysProcAttr.Pdeathsig, c.SysProcAttr.Setsid = false, 0, true
	c.Stdout, c.Stderr = output, output
	in, err := input(s)
	if err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", s.Path, err)
	}
	if in != nil {
		defer in.Close()
		c.Stdin = in
	}
	if err := alone(c.Start); err != nil {
		return nil, startError(s.Path, err)
	}
	l := &Lasting{spec: s, output: output, cmd: c, done: make(chan struct{})}
	go l.wait()
	return l, nil
}

// input gives a file in memory that holds what the program is to read; nil: nothing.
func input(s Spec) (*os.File, error) {
	if s.Stdin == "" {
		return nil, nil
	}
	fd, err := unix.MemfdCreate("stdin", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "stdin")
	if _, err = f.WriteString(s.Stdin); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (l *Lasting) wait() {
	defer close(l.done)
	err := l.cmd.Wait()
	l.result.Code = l.cmd.ProcessState.ExitCode()
	if ws, ok := l.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		l.result.Signal = ws.Signal()
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		l.err = fmt.Errorf("%s: %w", l.spec.Path, err)
		return
	}
	if err := l.read(); err != nil {
		l.err = fmt.Errorf("%s: its output cannot be read: %w", l.spec.Path, err)
	}
}

// read takes as much of the output as is kept, from its beginning or its end.
func (l *Lasting) read() error {
	info, err := l.output.Stat()
	if err != nil {
		return err
	}
	most := int64(cmp.Or(l.spec.MaxOutput, defaultOutput))
	kept, from := min(info.Size(), most), int64(0)
	l.result.Truncated = info.Size() > most
	if l.spec.Tail {
		from = info.Size() - kept
	}
	l.result.Stdout = make([]byte, kept)
	n, err := l.output.ReadAt(l.result.Stdout, from)
	l.result.Stdout = l.result.Stdout[:n]
	if errors.Is(err, io.EOF) { // somebody cut the file short
		return nil
	}
	return err
}

// PID is its process id.
func (l *Lasting) PID() int { return l.cmd.Process.Pid }

// Done is closed when the program has ended and its output was read. What it started may live on.
func (l *Lasting) Done() <-chan struct{} { return l.done }

// Result waits for the end. Both outputs are in Stdout, in the order in which they were written. The error is not
// about an exit status.
func (l *Lasting) Result() (Output, error) {
	<-l.done
	return l.result, l.err
}
