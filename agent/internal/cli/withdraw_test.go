package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"vouch/agent/internal/config"
	"vouch/agent/internal/control"
	"vouch/agent/internal/state"
	"vouch/routers"
)

// testWithdraw stands in for the agent's; what comes of it is told by the environment of the script.
func testWithdraw(ctx context.Context, cfg *config.Config) (*WithdrawReport, error) {
	if limit, ok := parseLength(os.Getenv("LIMIT")); ok {
		end, bounded := ctx.Deadline()
		if left := time.Until(end); !bounded || left > limit || left < limit/2 {
			return nil, fmt.Errorf("%s are left, of %s", left, limit)
		}
	}
	r := withdrawReport()
	r.File = cfg.File
	ps := r.Services[0].Prefixes
	switch os.Getenv("WITHDRAW") {
	case "never":
		panic("it was called")
	case "running":
		return nil, fmt.Errorf("%w (pid 42): stop it first, nothing was changed", control.ErrRunning)
	case "stuck":
		r.Took = 10 * time.Second
		ps[0].Stage, ps[0].Error, ps[0].Detail = routers.Advertised, "ospfd: refused: no", "it may come back"
		ps[1].Stage, ps[1].Detail = routers.Unknown, "not asked"
	case "away":
		r.Took, r.Router.OK, r.Router.Error = 10*time.Second, false, "ospfd.vty: connection refused"
		ps[0].Stage, ps[1].Stage = routers.Unknown, routers.Unknown
	}
	return r, nil
}

func withdrawReport() *WithdrawReport {
	s := situation(noon)
	withdraw(&s.Services[0], noon)
	return &WithdrawReport{Time: noon, Took: 23 * time.Millisecond, Router: s.Router,
		Services: []WithdrawnService{{Name: "resolver", Prefixes: s.Services[0].Prefixes}}}
}

func TestExitCodeOfAWithdraw(t *testing.T) {
	for _, c := range []struct {
		stage routers.Stage
		read  bool
		want  int
	}{
		{routers.Absent, true, ExitOK}, {routers.Absent, false, ExitOK}, {routers.Configured, true, ExitUnhealthy},
		{routers.Unknown, true, ExitUnhealthy}, {routers.Unknown, false, ExitNoAgent}, {routers.Advertised, false, ExitNoAgent},
	} {
		r := withdrawReport()
		r.Router.OK, r.Services[0].Prefixes[1].Stage = c.read, c.stage
		if got := r.ExitCode(); got != c.want {
			t.Errorf("%s, read %t: exit %d, want %d", c.stage, c.read, got, c.want)
		}
	}
}

// Only "vouch run" tells of its configuration by a status of its own.
func TestToldChangesOneStatus(t *testing.T) {
	plain := errors.New("plain")
	for _, c := range []struct {
		err  error
		want int
	}{{&exitError{ExitUsage, plain}, ExitConfig}, {&exitError{ExitUnhealthy, plain}, ExitUnhealthy}} {
		var exit *exitError
		if got := told(c.err); !errors.As(got, &exit) || exit.code != c.want || !errors.Is(got, plain) {
			t.Errorf("%v becomes %v", c.err, got)
		}
	}
	if told(nil) != nil || told(plain) != plain {
		t.Error("what has no status gets one")
	}
}

// A text that came from elsewhere stays on its line.
func TestWithdrawTextIsOneLine(t *testing.T) {
	r := withdrawReport()
	r.Services[0].Prefixes[0].Stage, r.Services[0].Prefixes[0].Error = routers.Configured, "a\nb\x1b[2J"
	if got := leftText(r); got != state.Clean(got) {
		t.Errorf("%q", got)
	}
}
