package agent

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"vouch/agent/internal/cli"
	"vouch/agent/internal/config"
	"vouch/agent/internal/state"
	"vouch/checks"
	"vouch/routers"
)

// check runs one round of the named services' checks, or of all when there are no names, and reads
// the router once. It asks for no change and touches no state.
func check(ctx context.Context, cfg *config.Config, names []string) (*cli.CheckReport, error) {
	router, err := NewRouter(cfg.Router)
	if err != nil {
		return nil, err
	}
	defer func() { _ = router.Close() }()
	label(router, cfg.Labels())
	if err := checkProbes(cfg); err != nil {
		return nil, err
	}
	out := &cli.CheckReport{Time: time.Now(), Node: cfg.Agent.Node, File: cfg.File}
	var ps []netip.Prefix
	var wg sync.WaitGroup
	for _, sc := range cfg.Services {
		if len(names) > 0 && !slices.Contains(names, sc.Name) {
			continue
		}
		ps = append(ps, sc.Prefixes...)
		out.Services = append(out.Services, cli.CheckedService{Name: sc.Name})
	}
	for i := range out.Services {
		wg.Go(func() { checkService(ctx, find(cfg, out.Services[i].Name), &out.Services[i]) })
	}
	seen := readRouter(ctx, router, cfg.Router, ps, &out.Router)
	wg.Wait()
	for i := range out.Services {
		for _, p := range find(cfg, out.Services[i].Name).Prefixes {
			out.Services[i].Prefixes = append(out.Services[i].Prefixes, seen[p])
		}
	}
	return out, ctx.Err()
}

// find gives a service that is known to be configured.
func find(cfg *config.Config, name string) *config.Service {
	i := slices.IndexFunc(cfg.Services, func(s config.Service) bool { return s.Name == name })
	return &cfg.Services[i]
}

// checkService runs one round.
func checkService(ctx context.Context, sc *config.Service, out *cli.CheckedService) {
	probes, err := probesOf(*sc)
	if err != nil {
		return // checkProbes has found that they can be made
	}
	results := checks.Once(ctx, probes)
	status := func(i int) checks.Status { return results[i].Status() }
	out.Outcome, out.Soft = evaluate(sc, status), evaluateSoft(sc, status)
	records := checkRecords(*sc)
	for i, res := range results {
		k := records[i]
		k.Target = state.Clean(probes[i].Checker.String())
		k.Status, k.Reason, k.Detail, k.Last, k.Since, k.Took = res.Status(), res.Reason(), state.DetailOf(res.Err), res.Start, res.Start, res.Took
		out.Checks = append(out.Checks, cli.CheckedCheck{Check: k, Timeout: probes[i].Timeout})
	}
}

// readRouter reads what the tables say of ps.
func readRouter(ctx context.Context, router routers.Router, rc config.Router, ps []netip.Prefix, out *state.Router) map[netip.Prefix]state.Prefix {
	ctx, cancel := context.WithTimeout(ctx, rc.Deadline)
	defer cancel()
	obs, err := router.Observe(ctx, ps)
	now := time.Now()
	*out = state.Router{Name: router.String(), Goal: router.Goal(), OK: err == nil, Since: now}
	if err == nil {
		out.Read = now
	} else {
		out.Error = state.Clean(err.Error())
	}
	seen := map[netip.Prefix]state.Prefix{}
	for _, o := range obs {
		seen[o.Prefix] = (&prefix{Observation: o, read: now}).snapshot(out.Goal)
	}
	return seen
}
