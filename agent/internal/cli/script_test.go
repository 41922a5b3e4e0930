package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"vouch/agent/internal/config"
	"vouch/agent/internal/control"
	"vouch/agent/internal/decide"
	"vouch/agent/internal/state"
	"vouch/routers"
)

// Programs are what scripts can run. The tests from without add the whole of vouch.
var Programs = map[string]func(){
	"vouch": func() { os.Exit(Run(os.Args[1:], os.Stdout, os.Stderr, testDeps())) },
}

func TestMain(m *testing.M) { testscript.Main(m, Programs) }

// testDeps stand in for the agent; what they do is told by the environment of the script.
func testDeps() Deps {
	return Deps{
		Version: "1.2.3",
		Run: func(ctx context.Context, o RunOptions) error {
			switch os.Getenv("RUN") {
			case "fails":
				return errors.New("another vouch runs here")
			case "bad-config":
				return config.Problems{{File: o.ConfigPath, What: "is not for this agent"}}
			case "until-stopped":
				fmt.Fprintln(o.Stderr, "running")
				<-ctx.Done()
			}
			fmt.Fprintf(o.Stderr, "ran %s on %s\n", o.ConfigPath, o.Config.Control.Socket)
			return nil
		},
		Check: func(_ context.Context, cfg *config.Config, o CheckOptions) (*CheckReport, error) {
			if os.Getenv("REPORT") == "" {
				return nil, errors.New("cannot check")
			}
			r := reports[os.Getenv("REPORT")]()
			r.File = cfg.File + " " + strings.Join(o.Services, ",")
			return r, nil
		},
		Withdraw: testWithdraw,
		Doctor: func(_ context.Context, o DoctorOptions) *DoctorReport {
			r := doctorReports[os.Getenv("REPORT")]()
			text := "valid"
			if o.Config == nil {
				text = o.Problem.Error()
			}
			pid := 0
			if o.Agent != nil {
				pid = o.Agent.PID
			}
			fmt.Printf("file %s %s agent %d\n", o.ConfigPath, text, pid)
			return r
		},
	}
}

// recorded is an agent that serves one of the snapshots and does what it is told to.
type recorded struct {
	*state.Store
	snapshot atomic.Pointer[state.Snapshot]
	stuck    bool // the routing table never follows
	drawn    chan struct{}
}

// Snapshot tells that somebody looks.
func (r *recorded) Snapshot() *state.Snapshot {
	select {
	case r.drawn <- struct{}{}:
	default:
	}
	return r.snapshot.Load()
}

type noService string

func (n noService) Error() string {
	return fmt.Sprintf("there is no service %q; there are: resolver", string(n))
}
func (n noService) Unknown() bool { return true }

func (r *recorded) change(service string, do func(s *state.Service, now time.Time)) error {
	old := r.snapshot.Load()
	snap := *old
	snap.Services = append([]state.Service(nil), old.Services...)
	if service != snap.Services[0].Name {
		return noService(service)
	}
	v := &snap.Services[0]
	v.Prefixes = append([]state.Prefix(nil), v.Prefixes...)
	do(v, time.Now())
	r.snapshot.Store(&snap)
	r.Touch()
	return nil
}

func (r *recorded) Drain(_ context.Context, service string, d decide.Drain) error {
	// The change is there before its event, as in the agent: who looks because of the event sees it.
	defer r.Add(state.Event{Time: time.Now(), Level: "warn", Kind: state.KindDrain, Service: service, Text: "drained by " + d.By + " " + d.Reason})
	return r.change(service, func(s *state.Service, now time.Time) {
		withdraw(s, now)
		s.Drain = &d
		for i := range s.Prefixes {
			if r.stuck {
				s.Prefixes[i].Stage, s.Prefixes[i].Error = routers.Advertised, "zebra: busy: locked"
			}
		}
	})
}

func (r *recorded) Resume(_ context.Context, service, by string) error {
	defer r.Add(state.Event{Time: time.Now(), Level: "info", Kind: state.KindDrain, Service: service, Text: "resumed by " + by})
	return r.change(service, func(s *state.Service, _ time.Time) {
		s.Drain = nil
		for i := range s.Prefixes {
			if isUp(s) && !r.stuck {
				s.Prefixes[i].Want, s.Prefixes[i].Stage, s.Prefixes[i].Degraded = s.Decision.Want, routers.Advertised, s.Decision.Want == routers.Degraded
			}
		}
	})
}

// cmdAgent serves a snapshot at $WORK/control.sock: agent [-stuck] [-group G] [-admin G] NAME.
// "agent stop" ends it.
func cmdAgent(ts *testscript.TestScript, neg bool, args []string) {
	if stop, ok := ts.Value("stop").(*func()); ok && *stop != nil {
		(*stop)()
		*stop = nil
	}
	if args[0] == "stop" {
		return
	}
	o := control.Options{Path: ts.MkAbs("control.sock")}
	r := &recorded{drawn: ts.Value("drawn").(chan struct{})}
	for len(args) > 1 {
		switch args[0] {
		case "-stuck":
			r.stuck = true
			args = args[1:]
		case "-group":
			o.Group, args = args[1], args[2:]
		case "-admin":
			o.AdminGroup, args = args[1], args[2:]
		}
	}
	situation, ok := snapshots[args[0]]
	if !ok || neg {
		ts.Fatalf("no snapshot %q", args[0])
	}
	r.Store = state.NewStore()
	r.snapshot.Store(situation(time.Now()))
	for _, e := range events(time.Now()) {
		r.Add(e)
	}
	srv := control.NewServer(o, r)
	ts.Check(srv.Listen())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx) }()
	stop := ts.Value("stop").(*func())
	*stop = sync.OnceFunc(func() { cancel(); ts.Check(<-done) })
}

// cmdReplaced puts another agent in the place of the first once somebody has looked at that twice,
// and makes the file drawn once the new one was looked at twice: replaced NAME.
func cmdReplaced(ts *testscript.TestScript, _ bool, args []string) {
	drawn := ts.Value("drawn").(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-drawn
		<-drawn
		cmdAgent(ts, false, args)
		<-drawn
		<-drawn
		_ = os.WriteFile(ts.MkAbs("drawn"), nil, 0o644)
	}()
	ts.Defer(func() { <-done })
}

// cmdHung listens at $WORK/control.sock and never answers.
func cmdHung(ts *testscript.TestScript, _ bool, _ []string) {
	l, err := net.Listen("unix", ts.MkAbs("control.sock"))
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
}

// cmdAs runs vouch as another user: as UID GID args...; like exec it fails unless negated.
func cmdAs(ts *testscript.TestScript, neg bool, args []string) {
	var uid, gid uint32
	_, err := fmt.Sscan(args[0]+" "+args[1], &uid, &gid)
	ts.Check(err)
	path, err := exec.LookPath("vouch")
	if err != nil {
		path = filepath.Join(strings.Split(ts.Getenv("PATH"), ":")[0], "vouch")
	}
	for _, p := range []string{path, ts.MkAbs(".")} {
		for d := filepath.Dir(p); d != "/" && d != "/tmp"; d = filepath.Dir(d) {
			ts.Check(os.Chmod(d, 0o755))
		}
	}
	cmd := exec.Command(path, args[2:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = []string{"TERM=dumb"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	out, err := cmd.CombinedOutput()
	if (err != nil) != neg {
		ts.Fatalf("vouch %s: %v\n%s", strings.Join(args[2:], " "), err, out)
	}
	ts.Check(os.WriteFile(ts.MkAbs("as.out"), fmt.Appendf(out, "exit %d\n", cmd.ProcessState.ExitCode()), 0o644))
}

// cmdExits runs vouch, or the program in $VOUCH, and compares its exit status: exits CODE args...
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	err := ts.Exec(cmp.Or(ts.Getenv("VOUCH"), "vouch"), args[1:]...)
	code := "0"
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = fmt.Sprint(exit.ExitCode())
	}
	if code != args[0] || neg {
		ts.Fatalf("vouch %s: exit status %s, want %s", strings.Join(args[1:], " "), code, args[0])
	}
}

// CmdExits is cmdExits for the tests from without.
var CmdExits = cmdExits

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(e *testscript.Env) error {
			e.Setenv("GORACE", "atexit_sleep_ms=0") // it waits a second at the end of each command otherwise
			e.Setenv("S", "--socket="+filepath.Join(e.WorkDir, "control.sock"))
			e.Setenv("C", "--config="+filepath.Join(e.WorkDir, "vouch.toml"))
			stop := new(func())
			e.Values["stop"], e.Values["drawn"] = stop, make(chan struct{})
			e.Defer(func() {
				if *stop != nil {
					(*stop)()
				}
			})
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Geteuid() == 0, nil
			}
			return false, fmt.Errorf("no condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"agent": cmdAgent, "hung": cmdHung, "as": cmdAs, "exits": cmdExits, "replaced": cmdReplaced},
	})
}
