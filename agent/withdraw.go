package agent

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"vouch/agent/internal/cli"
	"vouch/agent/internal/config"
	"vouch/agent/internal/control"
	"vouch/agent/internal/reconcile"
	"vouch/agent/internal/state"
	"vouch/routers"
)

// withdraw withdraws all prefixes of the configuration, in the agent's place: it keeps agents away meanwhile, and
// changes nothing when one runs. It returns once all are read to be absent, or when ctx ends.
func withdraw(ctx context.Context, cfg *config.Config) (*cli.WithdrawReport, error) {
	router, err := NewRouter(cfg.Router)
	if err != nil {
		return nil, err
	}
	defer func() { _ = router.Close() }()
	release, err := control.Hold(cfg.Control.Socket)
	if err != nil {
		return nil, err
	}
	defer func() { _ = release() }()
	unlock, err := control.HoldState(cfg.Agent.StateFile)
	if errors.Is(err, control.ErrRunning) {
		return nil, err
	}
	if err == nil {
		defer func() { _ = unlock() }()
	}
	label(router, cfg.Labels())
	want := reconcile.Desired{}
	for _, s := range cfg.Services {
		for _, p := range s.Prefixes {
			want[p] = routers.Withdrawn
		}
	}
	began := time.Now()
	last := until(ctx, router, cfg.Router, want)
	return withdrawn(cfg, router, last, time.Since(began)), nil
}

// until makes the router say what is wanted, and gives the last reading: the first that does, or the last before
// ctx ended.
func until(ctx context.Context, router routers.Router, rc config.Router, want reconcile.Desired) reconcile.Report {
	var last reconcile.Report
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	loop := reconcile.New(router, rulesOf(rc), func(r reconcile.Report) {
		last = r
		if r.Synced {
			stop()
		}
	})
	loop.Want(want)
	_ = loop.Run(ctx) // it ends well, whenever it ends
	return last
}

// withdrawn says what came of it. A router that has never been read has an empty Report.
func withdrawn(cfg *config.Config, router routers.Router, last reconcile.Report, took time.Duration) *cli.WithdrawReport {
	now := time.Now()
	out := &cli.WithdrawReport{Time: now, File: cfg.File, Took: took,
		Router: state.Router{Name: router.String(), Goal: router.Goal(), OK: last.Readings > 0 && last.ReadErr == nil, Read: last.Time}}
	if last.ReadErr != nil {
		out.Router.Error = state.Clean(last.ReadErr.Error())
	}
	read := map[netip.Prefix]routers.Observation{}
	for _, o := range last.Observations {
		read[o.Prefix] = o
	}
	for _, s := range cfg.Services {
		ws := cli.WithdrawnService{Name: s.Name}
		for _, p := range s.Prefixes {
			known := prefix{Observation: routers.Observation{Prefix: p}, want: routers.Withdrawn}
			if o, ok := read[p]; ok {
				known.Observation, known.read = o, last.Time
			}
			if left, ok := last.Outstanding[p]; ok {
				known.out = &left
			}
			ws.Prefixes = append(ws.Prefixes, known.snapshot(router.Goal()))
		}
		out.Services = append(out.Services, ws)
	}
	return out
}
