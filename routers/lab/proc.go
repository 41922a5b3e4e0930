package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A Proc is a process that runs inside a node. Its methods may be called concurrently.
type Proc struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{}
	err  error // of the process's end; valid once done is closed
}

// Start starts a program inside the node. What it writes goes to NAME.log in the node's directory,
// behind what an earlier process of that name wrote. It has its own process group, so the
// terminal's interrupt does not reach it.
func (nd *Node) Start(name string, args ...string) (*Proc, error) {
	p := &Proc{name: nd.name + " " + name, log: filepath.Join(nd.dir, name+".log"), done: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	defer out.Close()
	p.cmd = exec.Command(args[0], args[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Dir = nd.dir
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := nd.Do(p.cmd.Start); err != nil {
		return nil, fmt.Errorf("lab: start %s: %w", p.name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	if err := nd.net.add(p); err != nil {
		_ = p.Kill()
		return nil, err
	}
	return p, nil
}

// WriteProgram writes a program, which may be run at once. No process is started meanwhile: it would hold the file open for
// writing until it is executed, and the kernel refuses to run the program as long as that ("text file busy").
func WriteProgram(path, text string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	return nil
}

// PID is the process's id.
func (p *Proc) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended and was reaped.
func (p *Proc) Done() <-chan struct{} { return p.done }

// Running says whether the process has not ended yet.
func (p *Proc) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Err waits for the process's end and says how it ended: nil for exit status 0.
func (p *Proc) Err() error {
	<-p.done
	return p.err
}

// Signal sends a signal. A process that has ended gives os.ErrProcessDone.
func (p *Proc) Signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("lab: %s: %w", p.name, err)
	}
	return nil
}

// patience is how long a process may take to end. A busy machine was seen to need more than five seconds.
const patience = 30 * time.Second

// Stop asks the process to end (SIGTERM), kills it when it has not after 30 s, and waits for it.
func (p *Proc) Stop() error { return p.end(syscall.SIGTERM) }

// Kill kills the process (SIGKILL) and waits for its end. One that has ended is no error.
func (p *Proc) Kill() error { return p.end(syscall.SIGKILL) }

func (p *Proc) end(sig os.Signal) error {
	if !p.Running() {
		return nil
	}
	_ = p.Signal(sig)
	_ = p.Signal(syscall.SIGCONT) // a stopped process takes the signal when it goes on
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	}
	_ = p.Signal(syscall.SIGKILL)
	<-p.done
	return fmt.Errorf("lab: %s: did not end within %s of %s: killed", p.name, patience, sig)
}

// Log is all that the processes of this name have written so far.
func (p *Proc) Log() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return strings.ToValidUTF8(string(text), "?")
}

// String names the process: its node and its name there.
func (p *Proc) String() string { return p.name }
