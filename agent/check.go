package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"vouch/agent/internal/cli"
	"vouch/agent/internal/config"
	"vouch/agent/internal/health"
	"vouch/agent/internal/state"
	"vouch/checks"
	"vouch/routers"
)

// check runs one round of the checks that are asked for, and reads the router once. It asks for no change
// and touches no state.
func check(ctx context.Context, cfg *config.Config, o cli.CheckOptions) (*cli.CheckReport, error) {
	hearLibraries(slog.DiscardHandler)
	out := &cli.CheckReport{Time: time.Now(), Node: cfg.Agent.Node, File: cfg.File, Only: len(o.Only) > 0}
	services := asked(cfg, o)
	probes := make([][]checks.Probe, len(services))
	for i, sc := range services {
		var err error
		if probes[i], err = probesOf(sc); err != nil {
			return nil, err
		}
		out.Services = append(out.Services, cli.CheckedService{Name: sc.Name})
	}
	var wg sync.WaitGroup
	if !out.Only {
		router, err := NewRouter(cfg.Router)
		if err != nil {
			return nil, err
		}
		defer func() { _ = router.Close() }()
		label(router, cfg.Labels())
		wg.Go(func() { checkPrefixes(ctx, router, cfg.Router, services, out); o.Ended(cli.TheRouter) })
	}
	for i, sc := range services {
		wg.Go(func() { checkService(ctx, sc, probes[i], o, &out.Services[i]) })
	}
	wg.Wait()
	return out, ctx.Err()
}

// asked gives the services to look at, and of each the checks to run.
func asked(cfg *config.Config, o cli.CheckOptions) (services []config.Service) {
	for _, sc := range cfg.Services {
		switch {
		case len(o.Only) > 0:
			sc.Checks = slices.DeleteFunc(slices.Clone(sc.Checks), func(c config.Check) bool {
				return !slices.Contains(o.Only, cli.CheckName{Service: sc.Name, Check: c.Name})
			})
			if len(sc.Checks) == 0 {
				continue
			}
		case len(o.Services) > 0 && !slices.Contains(o.Services, sc.Name):
			continue
		}
		services = append(services, sc)
	}
	return services
}

// checkService runs one round of the checks of sc.
func checkService(ctx context.Context, sc config.Service, probes []checks.Probe, o cli.CheckOptions, out *cli.CheckedService) {
	runs := checks.Once(ctx, probes, checks.Look{Trace: o.Trace, Ended: func(i int) {
		o.Ended(cli.CheckName{Service: sc.Name, Check: sc.Checks[i].Name})
	}})
	status := func(i int) checks.Status { return runs[i].Status() }
	out.Outcome, out.Soft = evaluate(&sc, status), evaluateSoft(&sc, status)
	if len(o.Only) > 0 {
		out.Outcome, out.Soft = alone(runs), health.Good
	}
	records := checkRecords(sc)
	for i, run := range runs {
		k := records[i]
		k.Target = state.Clean(probes[i].Checker.String())
		k.Status, k.Reason, k.Detail = run.Status(), run.Reason(), state.DetailOf(run.Err)
		k.Last, k.Since, k.Took = run.Start, run.Start, run.Took
		cc := cli.CheckedCheck{Check: k, Timeout: probes[i].Timeout}
		if o.Trace {
			cc.Trace = traceOf(run.Trace)
		}
		out.Checks = append(out.Checks, cc)
	}
}

// alone says what checks come to that are asked about for their own sake: each must be ok, whatever it
// counts for in its service.
func alone(runs []checks.Run) health.Outcome {
	ms := make([]health.Member, len(runs))
	for i, r := range runs {
		ms[i] = health.Member{Status: r.Status(), Counts: true}
	}
	return health.Evaluate(health.Require{}, nil, ms)
}

// traceOf cleans each line of a trace.
func traceOf(trace []checks.Line) []cli.TraceLine {
	out := make([]cli.TraceLine, len(trace))
	for i, t := range trace {
		lines := strings.Split(strings.TrimRight(t.Text, "\r\n"), "\n")
		for j, l := range lines {
			lines[j] = state.Clean(l)
		}
		out[i] = cli.TraceLine{At: t.At, Direction: t.Direction, Text: strings.Join(lines, "\n")}
	}
	return out
}

// checkPrefixes reads what the tables say of the services' prefixes.
func checkPrefixes(ctx context.Context, router routers.Router, rc config.Router, services []config.Service, out *cli.CheckReport) {
	var ps []netip.Prefix
	for _, sc := range services {
		ps = append(ps, sc.Prefixes...)
	}
	seen := readRouter(ctx, router, rc, ps, &out.Router)
	for i, sc := range services {
		for _, p := range sc.Prefixes {
			out.Services[i].Prefixes = append(out.Services[i].Prefixes, seen[p])
		}
	}
}

// readRouter reads what the tables say of ps.
func readRouter(ctx context.Context, router routers.Router, rc config.Router, ps []netip.Prefix, out *state.Router) map[netip.Prefix]state.Prefix {
	ctx, cancel := context.WithTimeout(ctx, rc.Deadline)
	defer cancel()
	obs, err := router.Observe(ctx, ps)
	if err == nil {
		err = hindrance(obs)
	}
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

// hindrance is of what could not be read, or could not be changed as the routing daemon is configured; nil without
// any: then nothing is known that would keep an announce from coming through.
func hindrance(obs []routers.Observation) error {
	const most = 3
	var texts []string
	for _, o := range obs {
		text := o.Hindered
		if o.Stage == routers.Unknown {
			text = o.Prefix.String() + " is unknown: " + o.Detail
		}
		if text != "" && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	switch n := len(texts); {
	case n == 0:
		return nil
	case n > most:
		texts = append(texts[:most], fmt.Sprintf("and %d more", n-most))
	}
	return errors.New(strings.Join(texts, "; "))
}
