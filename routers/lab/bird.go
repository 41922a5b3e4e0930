package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// A BIRD is one BIRD daemon on a node, with its own control socket and a directory of its own, which
// BIRD's user owns and which any test may put files into. Its methods may be called concurrently, but
// not two that start or stop it.
type BIRD struct {
	node    *Node
	release Release
	name    string // of the program: bird, bird6
	dir     string

	mu   sync.Mutex
	proc *Proc
}

// BIRD starts the release's bird with config, which is a whole bird.conf, and returns when it answers on
// its socket. What it logs is on its standard error output (see WriteConfig), so in Log.
func (nd *Node) BIRD(ctx context.Context, r Release, config string) (*BIRD, error) {
	return nd.bird(ctx, r, "bird", config, nil)
}

// BIRD6 is BIRD for the daemon that BIRD 1 has for IPv6.
func (nd *Node) BIRD6(ctx context.Context, r Release, config string) (*BIRD, error) {
	return nd.bird(ctx, r, "bird6", config, nil)
}

// bird starts a daemon with some files beside its configuration, which it may include.
func (nd *Node) bird(ctx context.Context, r Release, name, config string, files map[string]string) (*BIRD, error) {
	b := &BIRD{node: nd, release: r, name: name, dir: filepath.Join(nd.dir, "bird")}
	if err := b.prepare(config, files); err != nil {
		return nil, fmt.Errorf("lab: %s of %s: %w", name, nd.name, err)
	}
	return b, b.Start(ctx)
}

func (b *BIRD) prepare(config string, files map[string]string) error {
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return err
	}
	if err := b.release.own("bird", b.dir); err != nil {
		return err
	}
	for name, text := range files {
		if err := b.WriteFile(name, text); err != nil {
			return err
		}
	}
	return b.WriteConfig(config)
}

// Release is what it was started from.
func (b *BIRD) Release() Release { return b.release }

// Dir is the directory of the configuration and the socket. It has the same path for the daemon, also
// where that runs in a root of its own.
func (b *BIRD) Dir() string { return b.dir }

// Path is the path of a file in Dir.
func (b *BIRD) Path(name string) string { return filepath.Join(b.dir, name) }

// Socket is the control socket, bird.ctl or bird6.ctl. Its mode is the daemon's own: 0660 bird:bird.
func (b *BIRD) Socket() string { return b.Path(b.name + ".ctl") }

// ConfigFile is the path of the configuration, bird.conf or bird6.conf.
func (b *BIRD) ConfigFile() string { return b.Path(b.name + ".conf") }

// logging is put behind every configuration, where it moves no line.
const logging = "\nlog stderr all;\n"

// Config is the configuration as it is in the file, without what WriteConfig put behind it.
func (b *BIRD) Config() (string, error) {
	text, err := os.ReadFile(b.ConfigFile())
	if err != nil {
		return "", fmt.Errorf("lab: %w", err)
	}
	return strings.TrimSuffix(string(text), logging), nil
}

// WriteConfig replaces the configuration's file, which is Configure's to load, with the text and a line
// that has BIRD log to its standard error output.
func (b *BIRD) WriteConfig(text string) error {
	return b.WriteFile(filepath.Base(b.ConfigFile()), text+logging)
}

// WriteFile replaces a file in Dir at once, and gives it to BIRD's user.
func (b *BIRD) WriteFile(name, text string) error {
	next := b.Path("." + name + ".new")
	if err := os.WriteFile(next, []byte(text), 0o644); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	if err := b.release.own("bird", next); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	if err := os.Rename(next, b.Path(name)); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	return nil
}

// Start starts the daemon, again when it was stopped, and waits until it answers.
func (b *BIRD) Start(ctx context.Context) error {
	if p := b.process(); p != nil && p.Running() {
		return fmt.Errorf("lab: %s runs already", p)
	}
	args := b.release.command("", b.release.program(b.name), "-f", "-u", "bird", "-g", "bird",
		"-c", b.ConfigFile(), "-s", b.Socket(), "-P", b.Path(b.name+".pid"))
	p, err := b.node.Start(b.name, args...)
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.proc = p
	b.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	return Wait(ctx, p.String()+" to answer", 5*time.Millisecond, func() (bool, error) {
		if !p.Running() {
			cancel(fmt.Errorf("it ended: %w: %s", p.Err(), lastLine(p.Log())))
			return false, nil
		}
		_, err := b.Show(ctx, "show status")
		return err == nil, err
	})
}

// Stop stops the daemon (SIGTERM) and waits for its end. It takes its routes out of the kernel.
func (b *BIRD) Stop() error { return b.with((*Proc).Stop) }

// Kill kills the daemon (SIGKILL). It leaves its socket file and what it put into the kernel.
func (b *BIRD) Kill() error { return b.with((*Proc).Kill) }

// Signal sends a signal: SIGSTOP makes the daemon hang, SIGCONT go on.
func (b *BIRD) Signal(sig os.Signal) error {
	return b.with(func(p *Proc) error { return p.Signal(sig) })
}

// Restart stops and starts the daemon, as `systemctl restart bird`.
func (b *BIRD) Restart(ctx context.Context) error { return errors.Join(b.Stop(), b.Start(ctx)) }

// PID is the daemon's process id, 0 when it never ran.
func (b *BIRD) PID() int {
	if p := b.process(); p != nil {
		return p.PID()
	}
	return 0
}

// Log is all that the daemon has logged so far, over all its starts.
func (b *BIRD) Log() string {
	if p := b.process(); p != nil {
		return p.Log()
	}
	return ""
}

func (b *BIRD) process() *Proc {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.proc
}

func (b *BIRD) with(do func(*Proc) error) error {
	p := b.process()
	if p == nil {
		return fmt.Errorf("lab: %s of %s was not started", b.name, b.node.name)
	}
	return do(p)
}

// Client is the command line of the release's own client on this daemon's socket, without a command of
// BIRD's behind it. It runs from anywhere.
func (b *BIRD) Client() []string {
	client := b.release.client
	if b.name == "bird6" {
		client += "6"
	}
	if b.release.chroot() == "" {
		client = b.release.file(client)
	}
	return b.release.command("", client, "-s", b.Socket())
}

// Birdc runs one command in a client of its own and gives what that printed. It waits as long as ctx for
// a daemon that hangs.
func (b *BIRD) Birdc(ctx context.Context, command string) (string, error) {
	return b.node.Run(ctx, append(b.Client(), strings.Fields(command)...)...)
}
