// Package agent is vouch's wiring: it connects checks, verdicts, decisions, the reconciler and what
// people see, runs them side by side, and ends them in order.
package agent

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"vouch/agent/internal/config"
	"vouch/agent/internal/control"
	"vouch/agent/internal/reconcile"
	"vouch/agent/internal/state"
	"vouch/agent/internal/systemd"
	"vouch/routers"
)

const (
	// stopPatience is how long the stop may take to withdraw what on_stop = "withdraw" asks for, where the router's
	// deadline is not longer. With "keep" a withdraw that is under way has applyPatience and one reading.
	stopPatience = 10 * time.Second
	// beatLimit is how long a loop may be without progress before the watchdog is no longer fed.
	beatLimit = 8 * time.Second
	// lockPatience is stopPatience while others keep the daemon from being changed, as with VyOS who commits does. The
	// route is out of FRR by then, and would be there again with the next commit, when nobody looks any more. A commit
	// takes 2 to 14 s, and minutes when its archive is out of reach; contrib/vyos has TimeoutStopSec=4min.
	lockPatience = 3 * time.Minute
	// stopMargin is what the service manager is asked for beyond these.
	stopMargin = 5 * time.Second
	// applyPatience bounds one batch of changes. The FRR driver may pace a batch over 1.2 s for
	// OSPF's sake; a commit of VyOS goes on beyond it, and the next batch waits for it.
	applyPatience = 4 * time.Second
)

// Deps are what the agent needs from the process it runs in.
type Deps struct {
	Version   string
	Log       *slog.Logger
	Notifier  *systemd.Notifier
	Hangup    <-chan os.Signal // asks for a reload
	NewRouter func(config.Router) (routers.Router, error)
	Socket    string // outranks the configuration's control socket, also after a reload; or empty
}

// An Agent vouches for the services of one configuration.
type Agent struct {
	deps    Deps
	cfg     *config.Config
	core    *core
	recon   *reconcile.Loop
	router  routers.Router
	beats   *systemd.Beats
	runners *runners
	exam    *examination  // nil: the router cannot be examined
	read    chan struct{} // closed after the router was read once
	onRead  sync.Once
}

// New gives an Agent for cfg. It does nothing until Run.
func New(cfg *config.Config, deps Deps) *Agent {
	return &Agent{cfg: cfg, deps: deps, beats: systemd.NewBeats(), read: make(chan struct{})}
}

// Run takes the control socket, which no other agent may hold, and works until ctx ends; then it
// stops as on_stop says. Its error says why it could not start, when it changed nothing; or what it
// could not withdraw when it stopped.
func (a *Agent) Run(ctx context.Context) error {
	router, err := a.deps.NewRouter(a.cfg.Router)
	if err != nil {
		return err
	}
	a.router = router
	defer func() { _ = router.Close() }()
	if err := checkProbes(a.cfg); err != nil {
		return err
	}
	watchdog, err := systemd.NewWatchdog(a.beats, a.deps.Notifier)
	if err != nil {
		return err
	}
	clock, err := state.ReadClock()
	if err != nil {
		return err
	}
	noteStarted()
	_ = replaced() // what an earlier stop did not take up
	keeper := a.wire()
	server := control.NewServer(control.Options{Path: a.cfg.Control.Socket, Group: a.cfg.Control.Group, AdminGroup: a.cfg.Control.AdminGroup,
		Log: a.deps.Log}, orders{a.core})
	if err := server.Listen(); err != nil {
		return err
	}
	release, unlocked := control.HoldState(a.cfg.Agent.StateFile)
	if errors.Is(unlocked, control.ErrRunning) {
		return errors.Join(unlocked, server.Close())
	}
	if unlocked == nil {
		defer func() { _ = release() }()
	}
	loaded, err := state.Load(a.cfg.Agent.StateFile, clock)
	a.core.start(loaded, err)
	a.core.onUnlocked(unlocked)
	label(router, a.core.allLabels())
	label(router, a.cfg.Labels()) // which alone are managed: what an earlier run left keeps its own
	a.core.noteLocal(a.cfg.Local())
	watchdog.Late, watchdog.Failed = a.core.onLate, a.untold
	// The control socket's lock is what keeps a second agent away, so that is given up last.
	open, shut := context.WithCancel(context.WithoutCancel(ctx))
	defer shut()
	door := tasks{failed: a.core.onTaskFailed, works: a.core.onTaskWorks}
	door.start(open, loop{name: "control socket", run: server.Serve})
	err = a.work(ctx, append(a.loops(keeper, watchdog), a.leftovers(loaded)...))
	shut()
	door.wg.Wait()
	return err
}

// work runs the loops and the checks until ctx ends, and then stops them in order.
func (a *Agent) work(ctx context.Context, loops []Task) error {
	work, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	ts := tasks{failed: a.core.onTaskFailed, works: a.core.onTaskWorks}
	for _, t := range loops {
		ts.start(work, t)
	}
	for _, sc := range a.cfg.Services {
		a.runners.start(work, sc, 0)
	}
	a.serve(ctx, work, ts.ready(work))
	err := a.stop()
	end()
	ts.wg.Wait()
	return err
}

// wire makes the core and the reconciler and connects them.
func (a *Agent) wire() *state.Keeper {
	now := time.Now()
	head := state.Snapshot{Version: a.deps.Version, Node: a.cfg.Agent.Node, PID: os.Getpid(), Started: now,
		Config: state.Config{File: a.cfg.File, Loaded: now}, Router: state.Router{Name: a.router.String(), Goal: a.router.Goal()}}
	c := newCore(a.cfg, head, state.NewStore())
	a.core = c
	keeper := state.NewKeeper(a.writeState, c.onFile)
	beat := a.beats.Register("reconcile", beatLimit)
	rules := rulesOf(a.cfg.Router)
	rules.Beat = mayHang(beat.Beat)
	a.recon = reconcile.New(a.router, rules, a.report)
	c.want, c.amend, c.save, c.log = a.recon.Want, a.recon.Amend, keeper.Save, a.logEvent
	if e, ok := a.router.(routers.Examiner); ok {
		a.exam = &examination{router: e, asked: make(chan struct{}, 1), ps: c.managed, found: c.onFindings}
		c.examine = a.exam.ask
	}
	a.runners = &runners{core: c, byID: map[string]*running{}, beat: func(name string) (func(), func()) {
		b := a.beats.Register(name, beatLimit)
		return b.Beat, b.Close
	}}
	return keeper
}

// rulesOf gives the reconciler's rules for a router.
func rulesOf(rc config.Router) reconcile.Options {
	return reconcile.Options{Timeout: rc.Timeout, ApplyTimeout: max(applyPatience, rc.Timeout), Deadline: rc.Deadline,
		VerifyInterval: rc.VerifyInterval, RetryMin: rc.RetryMin, RetryMax: rc.RetryMax}
}

// loops lists what runs beside the checks.
func (a *Agent) loops(keeper *state.Keeper, watchdog *systemd.Watchdog) []Task {
	ts := []Task{
		loop{name: "reconcile", run: a.recon.Run, ready: a.read},
		loop{name: "state file", run: keeper.Run},
		loop{name: "clock", run: a.runClock},
		loop{name: "status", run: a.runStatus},
		loop{name: "watchdog", run: watchdog.Run},
	}
	if a.exam != nil {
		ts = append(ts, loop{name: "examination", run: a.exam.run})
	}
	return ts
}

// report hands a reading to the core, and notes that there was one.
func (a *Agent) report(r reconcile.Report) {
	a.core.onReport(r)
	a.onRead.Do(func() { close(a.read) })
}

// serve tells that all is ready once it is, and reloads when asked, until ctx ends.
func (a *Agent) serve(ctx, work context.Context, ready <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-ready:
			ready = nil
			a.core.onReady()
			a.notify(a.deps.Notifier.Ready)
		case <-a.deps.Hangup:
			a.notify(a.deps.Notifier.Reloading)
			a.reload(work)
			if ready == nil {
				a.notify(a.deps.Notifier.Ready)
			}
		}
	}
}

// stopping says how long a stop may take, and how long while others keep the daemon from being changed.
func (a *Agent) stopping(withdraws bool) (usual, locked time.Duration) {
	rc := a.cfg.Router
	usual = max(applyPatience, rc.Timeout) + rc.Timeout // one batch, and the reading after it
	if !withdraws {
		return usual, max(usual, rc.Deadline) // nothing is checked meanwhile
	}
	usual = max(stopPatience, usual, rc.Deadline) // a commit of VyOS takes its time
	return usual, max(usual, lockPatience)
}

// stop withdraws what is to be withdrawn, ends the checks, and returns when every withdraw was read
// back, or with an error when that takes too long.
func (a *Agent) stop() error {
	usual, locked := a.stopping(a.core.beginStop(replaced()))
	a.notify(a.deps.Notifier.Stopping)
	a.notify(func() error { return a.deps.Notifier.ExtendTimeout(usual + stopMargin) })
	a.runners.stopAll()
	began := time.Now()
	over := time.NewTimer(usual)
	defer over.Stop()
	for {
		changed := a.core.store.Changed()
		left := a.core.unfinished()
		if len(left) == 0 {
			return nil
		}
		select {
		case <-over.C:
			if more := locked - time.Since(began); more > 0 && a.core.isLocked(left) {
				a.notify(func() error { return a.deps.Notifier.ExtendTimeout(more + stopMargin) })
				over.Reset(more)
				continue
			}
			a.notify(func() error { return a.deps.Notifier.ExtendTimeout(lockPatience + stopMargin) }) // a commit may have to end
			return errors.New(a.core.onStopFailed(left, time.Since(began)))
		case <-changed:
		}
	}
}

// writeState writes the present state to the state file.
func (a *Agent) writeState() error {
	clock, err := state.ReadClock()
	if err != nil {
		return err
	}
	b, err := state.Encode(a.core.toSave(), clock)
	if err != nil {
		return err
	}
	return state.Write(a.cfg.Agent.StateFile, b)
}

// notify tells the service manager; that it cannot be told is worth a line and no more.
func (a *Agent) notify(tell func() error) {
	if err := tell(); err != nil {
		a.untold(err)
	}
}

func (a *Agent) untold(err error) {
	a.deps.Log.Warn("the service manager cannot be told", "error", err)
}
