package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"vouch/agent/internal/config"
	"vouch/checks"
)

// runners holds one running checks.Runner for each service. It is used by one goroutine.
type runners struct {
	core *core
	beat func(name string) (beat func(), forget func()) // registers a loop that has to be alive
	byID map[string]*running
}

type running struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// start runs the checks of a service, of which checkProbes found that they can be made, until stop.
func (rs *runners) start(ctx context.Context, sc config.Service, generation int) {
	probes, err := probesOf(sc)
	if err != nil {
		rs.core.onChecksBroken(sc.Name, err)
		return
	}
	rs.core.onTargets(sc.Name, generation, probes)
	beat, forget := rs.beat("service " + sc.Name)
	r := checks.NewRunner(sc.Name, probes, sc.Health.Interval, settledBy(&sc),
		func(_ context.Context, round checks.Round) time.Duration {
			return rs.core.onRound(sc.Name, generation, round)
		})
	r.Note = func(i int, res checks.Result) { rs.core.onNote(sc.Name, generation, i, res) }
	r.Lost = func(i int, err error) { rs.core.onHints(sc.Name, sc.Checks[i].Name, err) }
	r.Beat = beat
	ctx, cancel := context.WithCancel(ctx)
	run := &running{cancel: cancel}
	run.done.Go(func() {
		defer forget()
		if err := r.Run(ctx); err != nil {
			rs.core.onChecksBroken(sc.Name, err)
		}
	})
	rs.byID[sc.Name] = run
}

// stop ends the checks of services, all at once, and waits for them.
func (rs *runners) stop(names ...string) {
	for _, name := range names {
		if run := rs.byID[name]; run != nil {
			run.cancel()
		}
	}
	for _, name := range names {
		if run := rs.byID[name]; run != nil {
			run.done.Wait()
			delete(rs.byID, name)
		}
	}
}

// stopAll ends all checks and waits for them.
func (rs *runners) stopAll() { rs.stop(slices.Collect(maps.Keys(rs.byID))...) }

// probesOf makes the checkers of a service.
func probesOf(sc config.Service) ([]checks.Probe, error) {
	probes := make([]checks.Probe, len(sc.Checks))
	for i, cc := range sc.Checks {
		checker, err := cc.Spec.New()
		if err != nil {
			return nil, fmt.Errorf("service.%s.check.%s: %w", sc.Name, cc.Name, err)
		}
		probes[i] = checks.Probe{Name: cc.Name, Checker: checker, Timeout: cc.Timeout}
		if cc.Interval > sc.Health.Interval {
			probes[i].Interval = cc.Interval
		}
	}
	return probes, nil
}

// checkProbes tells whether all checks of cfg can be made.
func checkProbes(cfg *config.Config) error {
	var errs []error
	for _, sc := range cfg.Services {
		_, err := probesOf(sc)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
