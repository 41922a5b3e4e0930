package vyos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/command"
	"vouch/routers/vyos/vyostest"
)

// asAgent is set for a process that is an agent to be killed: the root of its system.
const asAgent = "VOUCH_TEST_VYOS_ROOT"

// via says how that agent configures.
const via = "VOUCH_TEST_VYOS_VIA"

func TestMain(m *testing.M) {
	if root := os.Getenv(asAgent); root != "" {
		o := Options{Method: MethodStatic, Via: os.Getenv(via), Root: root, Timeout: busyFRR}
		err := New(o).Apply(context.Background(), []routers.Change{{Prefix: one, Want: routers.Announced}})
		fmt.Println(err)
		os.Exit(3)
	}
	m.Run()
}

// The agent is killed in the midst of each step. The next one finds what there is, changes another prefix, and leaves
// nothing behind; what VyOS and FRR had is still there.
func TestAgentKilledAtEachStep(t *testing.T) {
	b := open(t, vyostest.Options{})
	for _, verb := range []string{"getSessionEnv", "setupSession", "my_set", "sessionChanged", "showConfig", "my_commit", "teardownSession"} {
		t.Run(verb, func(t *testing.T) {
			own := &bench{t, b.lab, vyostest.New(t, vyostest.Options{SocketDir: b.lab.Nodes[0].FRR.SocketDir()})}
			own.system.Fault(vyostest.KillCaller, 1, verb)
			if verb == "my_commit" {
				own.system.Fault(vyostest.CommitSlow, 1, "1s")
			}
			self, err := os.Executable()
			own.must(err)
			out, err := command.Run(t.Context(), command.Spec{Path: self, Env: []string{asAgent + "=" + own.system.Root()}})
			own.must(err)
			if out.Signal == 0 {
				t.Fatalf("the agent was not killed: exit status %d: %s%s", out.Code, out.Stdout, out.Stderr)
			}
			r := own.router(Options{Method: MethodStatic})
			own.wait("the other prefix to be announced", func() error {
				err := own.apply(r, routers.Announced, two)
				if err != nil && !errors.Is(err, routers.ErrBusy) {
					t.Fatal(err)
				}
				return err
			})
			own.becomes(r, routers.Advertised, false, two)
			committed := verb == "my_commit" || verb == "teardownSession"
			own.wait("the commit of the dead agent", func() error {
				if own.configured(one) != committed {
					return fmt.Errorf("VyOS has %s: %v", one, !committed)
				}
				return nil
			})
			own.core(committed, one)
			own.clean()
			own.withdrawn(r, one, two)
		})
	}
}

// A commit of an agent that is gone is neither disturbed nor overtaken.
func TestCommitOfADeadAgentIsLeftToEnd(t *testing.T) {
	b := open(t, vyostest.Options{})
	b.system.Fault(vyostest.KillCaller, 1, "my_commit")
	waiting, release := b.system.HoldUp("protocols_static.py")
	self, err := os.Executable()
	b.must(err)
	_, err = command.Run(t.Context(), command.Spec{Path: self, Env: []string{asAgent + "=" + b.system.Root()}})
	b.must(err)
	waiting()
	r := b.router(Options{Method: MethodStatic, LockWait: time.Millisecond})
	b.wantError(b.apply(r, routers.Announced, two), routers.ErrBusy, "earlier vouch", "pid")
	if len(b.system.CallsOf("teardownSession")) > 0 {
		t.Error("its session was ended")
	}
	release()
	b.becomes(r, routers.Advertised, false, one)
	b.announced(r, two)
	if left := b.system.Sessions(); len(left) > 0 {
		t.Errorf("sessions are left: %s", strings.Join(left, ", "))
	}
}

// A script goes on without the agent that began it, and ends its session itself.
func TestScriptOfADeadAgentEndsWhole(t *testing.T) {
	b := open(t, vyostest.Options{})
	waiting, release := b.system.HoldUp("my_commit")
	self, err := os.Executable()
	b.must(err)
	ctx, kill := context.WithCancel(t.Context())
	done := make(chan command.Output)
	go func() {
		out, _ := command.Run(ctx, command.Spec{Path: self, Env: []string{asAgent + "=" + b.system.Root(), via + "=" + ViaVbash}})
		done <- out
	}()
	waiting()
	kill()
	if out := <-done; out.Signal == 0 {
		t.Fatalf("the agent was not killed: exit status %d: %s%s", out.Code, out.Stdout, out.Stderr)
	}
	release()
	b.wait("the script to end", func() error {
		if left := b.system.Sessions(); len(left) > 0 || !b.configured(one) {
			return fmt.Errorf("sessions %q, configuration %q", left, b.system.Active())
		}
		return nil
	})
	b.clean()
	b.core(true, one)
}

// These are of the way through vbash, whose sessions go by process ids.
var scripted = []scene{
	{name: "a set is lost without a word", play: func(b *bench, r *Router) {
		b.system.Fault(vyostest.KillCaller, 1, "my_set") // the shell's own child
		b.wantError(b.apply(r, routers.Announced, one), routers.ErrUnavailable, one.String(), "has not come into VyOS's configuration")
		b.announced(r, one)
		b.withdrawn(r, one)
	}},
	{name: "sessions of killed scripts", dirty: true, play: func(b *bench, r *Router) {
		alive := strconv.Itoa(os.Getpid())
		b.system.Left("4194304", "delete protocols bgp") // beyond all process ids
		b.system.Stale("4194305")
		b.system.Stale("4194306")
		b.must(os.Chown(b.system.Path("/opt/vyatta/config/tmp/new_config_4194306"), 1002, vyostest.Group)) // another user's
		b.system.Left(alive, "set system host-name r2")
		b.announced(r, one)
		if left := b.system.Sessions(); !slices.Equal(left, []string{alive, "4194306"}) && !slices.Equal(left, []string{"4194306", alive}) {
			b.Errorf("these are left: %q", left)
		}
	}},
}
