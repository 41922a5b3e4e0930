package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// frrPrograms is where Debian and FRR's own packages put the daemons.
const frrPrograms = "/usr/lib/frr"

// mgmtd takes a part of the configuration in FRR 10, beginning with static routes.
const mgmtd = "mgmtd"

// An FRR is a set of FRR daemons on one node, with their own sockets. Its methods may be called
// concurrently, but not two that start or stop the same daemon.
type FRR struct {
	node    *Node
	release Release
	dir     string
	daemons []string // in the order of their start

	mu    sync.Mutex
	procs map[string]*Proc
}

// FRR is FRRFrom with this machine's own FRR.
func (nd *Node) FRR(ctx context.Context, config string, daemons ...string) (*FRR, error) {
	return nd.FRRFrom(ctx, FRRHost, config, daemons...)
}

// FRRFrom starts zebra, mgmtd where the release has it (FRR 10), and the given daemons, and loads config,
// which is a whole frr.conf. It returns when every daemon has taken its part of it. Daemons that run
// already are an error.
func (nd *Node) FRRFrom(ctx context.Context, r Release, config string, daemons ...string) (*FRR, error) {
	f := &FRR{node: nd, release: r.orHost(), dir: filepath.Join(nd.dir, "frr"), procs: map[string]*Proc{}}
	if f.release.has(mgmtd) {
		f.daemons = append(f.daemons, mgmtd)
	}
	f.daemons = append(f.daemons, "zebra")
	for _, d := range daemons {
		if !slices.Contains(f.daemons, d) {
			f.daemons = append(f.daemons, d)
		}
	}
	if err := f.prepare(config); err != nil {
		return nil, fmt.Errorf("lab: %s of %s: %w", r, nd.name, err)
	}
	return f, f.Start(ctx)
}

// prepare makes the directory that FRR's own user may write to, with the configuration.
func (f *FRR) prepare(config string) error {
	if err := os.Mkdir(f.dir, 0o755); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"frr.conf": config, "vtysh.conf": "service integrated-vtysh-config\n",
	} {
		if err := os.WriteFile(f.path(name), []byte(text), 0o640); err != nil {
			return err
		}
	}
	return f.release.own("frr", f.dir, f.path("frr.conf"), f.path("vtysh.conf"))
}

// command gives the command line that runs one of FRR's programs.
func (f *FRR) command(args ...string) []string {
	if f.release.has(mgmtd) {
		return f.release.command(f.dir, args...)
	}
	return f.release.command("", args...)
}

// SocketDir is the directory with the daemons' vty sockets, zserv.api, frr.conf and FRR's logs.
// The modes of the sockets are the daemons' own: root, and members of the group frrvty.
func (f *FRR) SocketDir() string { return f.dir }

// Start starts all daemons, zebra before those which need it, and has them load the configuration.
func (f *FRR) Start(ctx context.Context) error {
	for _, d := range f.daemons {
		if err := f.launch(ctx, d); err != nil {
			return err
		}
	}
	return f.load(ctx)
}

// Stop stops all daemons as FRR's own scripts do (SIGINT), zebra last.
func (f *FRR) Stop() error {
	var errs []error
	for _, d := range slices.Backward(f.daemons) {
		errs = append(errs, f.StopDaemon(d))
	}
	return errors.Join(errs...)
}

// Restart stops and starts all daemons with the same configuration, as `systemctl restart frr`.
func (f *FRR) Restart(ctx context.Context) error {
	return errors.Join(f.Stop(), f.Start(ctx))
}

// StartDaemon starts one daemon that was stopped and has it load its part of the configuration.
func (f *FRR) StartDaemon(ctx context.Context, daemon string) error {
	if err := f.launch(ctx, daemon); err != nil {
		return err
	}
	if daemon == mgmtd {
		return f.load(ctx)
	}
	return f.load(ctx, "-d", daemon)
}

// StopDaemon stops one daemon (SIGINT) and waits for its end.
func (f *FRR) StopDaemon(daemon string) error {
	p, err := f.proc(daemon)
	if err != nil {
		return err
	}
	return p.end(syscall.SIGINT)
}

// RestartDaemon stops and starts one daemon alone, which FRR's watchfrr never does with zebra: the
// others are not told, so ospfd does not send its routes to the new zebra.
func (f *FRR) RestartDaemon(ctx context.Context, daemon string) error {
	if err := f.StopDaemon(daemon); err != nil {
		return err
	}
	return f.StartDaemon(ctx, daemon)
}

// Kill kills one daemon (SIGKILL). It leaves its socket file and what it put into the kernel.
func (f *FRR) Kill(daemon string) error {
	p, err := f.proc(daemon)
	if err != nil {
		return err
	}
	return p.Kill()
}

// Signal sends a signal to one daemon: SIGSTOP makes it hang, SIGCONT go on.
func (f *FRR) Signal(daemon string, sig os.Signal) error {
	p, err := f.proc(daemon)
	if err != nil {
		return err
	}
	return p.Signal(sig)
}

// PID is the process id of a daemon, 0 when it never ran.
func (f *FRR) PID(daemon string) int {
	p, err := f.proc(daemon)
	if err != nil {
		return 0
	}
	return p.PID()
}

// Vtysh runs commands one after the other in a vtysh of its own and gives what it printed. It
// waits as long as ctx for a daemon that hangs.
func (f *FRR) Vtysh(ctx context.Context, commands ...string) (string, error) {
	args := f.vtysh()
	for _, c := range commands {
		args = append(args, "-c", c)
	}
	return f.node.Run(ctx, args...)
}

func (f *FRR) vtysh() []string {
	return f.command(f.release.client, "--vty_socket", f.dir, "--config_dir", f.dir)
}

// load sends frr.conf to the daemons. Then mgmtd's socket is made to look old: while it is young nobody who
// knows FRR 10 opens a session there, as mgmtd may lose what it is loading.
func (f *FRR) load(ctx context.Context, args ...string) error {
	if _, err := f.node.Run(ctx, append(append(f.vtysh(), "-b"), args...)...); err != nil || !f.release.has(mgmtd) {
		return err
	}
	return os.Chtimes(f.path(mgmtd+".vty"), time.Time{}, time.Now().Add(-time.Hour))
}

func (f *FRR) proc(daemon string) (*Proc, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.procs[daemon]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("lab: frr of %s: %s was not started", f.node.name, daemon)
}

// launch starts one daemon and waits until it takes connections. The others try to reach zebra
// every 10 s only, so they must not be started before zebra listens.
func (f *FRR) launch(ctx context.Context, daemon string) error {
	if p, err := f.proc(daemon); err == nil && p.Running() {
		return fmt.Errorf("lab: frr of %s: %s runs already", f.node.name, daemon)
	}
	args := []string{
		f.release.program(daemon), "--vty_socket", f.dir, "-i", f.path(daemon + ".pid"),
		"-z", f.path("zserv.api"), "-P", "0", "-F", "traditional",
		"--log", "file:" + f.path(daemon+".log"), "--log-level", "informational",
	}
	listens := []string{f.path(daemon + ".vty")}
	if daemon == "zebra" {
		args = append(args, "-s", "90000000")
		listens = append(listens, f.path("zserv.api"))
	}
	p, err := f.node.Start(daemon, f.command(args...)...)
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.procs[daemon] = p
	f.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	return Wait(ctx, p.String()+" to listen", 5*time.Millisecond, func() (bool, error) {
		if !p.Running() {
			cancel(fmt.Errorf("it ended: %w: %s", p.Err(), lastLine(p.Log())))
		}
		sockets, err := f.node.listening()
		return err == nil && !slices.ContainsFunc(listens, func(s string) bool { return !sockets[s] }), err
	})
}

func (f *FRR) path(name string) string { return filepath.Join(f.dir, name) }

// listening gives the paths of the unix sockets of the node that processes listen on. A dead daemon leaves
// its socket's file, so that says nothing; and to connect to zserv.api for a moment is no way to ask: zebra
// 10.3 then often installs no route at all.
func (nd *Node) listening() (map[string]bool, error) {
	var text []byte
	err := nd.Do(func() (err error) {
		text, err = os.ReadFile("/proc/thread-self/net/unix")
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	return listening(string(text)), nil
}

// listening finds the sockets with the flag for that in the text of /proc/net/unix. Its columns are
//
//	number, references, protocol, flags, type, state, inode, path
func listening(text string) map[string]bool {
	const accepts = 1 << 16 // __SO_ACCEPTCON
	found := map[string]bool{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 8 {
			continue
		}
		if flags, err := strconv.ParseUint(f[3], 16, 32); err == nil && flags&accepts != 0 {
			found[f[7]] = true
		}
	}
	return found
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}
