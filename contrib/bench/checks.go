package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/BurntSushi/toml"

	"vouch/checks"
	"vouch/checks/kinds"
)

// within is how long one check, or the program instead of it, may take.
const within = 5 * time.Second

// An effort is what a check took, and the program that a script runs instead. Each is in turn measured
// without the servers, which are other processes.
type effort struct {
	Own     cost    `json:"own"`
	Objects float64 `json:"objects"` // allocated by one check
	Bytes   float64 `json:"bytes"`
	Rival   cost    `json:"rival"`
	Missing string  `json:"missing"` // why there is no rival
}

// checks measures one check of each kind, in a process of its own on a host with real servers.
func (b *bench) checks(ctx context.Context, r *report) (err error) {
	g, err := newGround(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	all := g.contests()
	shown.begin("checks", len(all))
	var failed []error
	for _, c := range all {
		e, err := b.contest(ctx, g, c)
		if err != nil {
			err = fmt.Errorf("%s: %w", c.Name, err)
			failed = append(failed, err)
			c.Lacks = strings.TrimSpace(err.Error())
		}
		r.contest(c, e)
		shown.step()
	}
	return errors.Join(failed...)
}

// contest has a worker measure one.
func (b *bench) contest(ctx context.Context, g *ground, c contest) (e effort, err error) {
	if c.Lacks != "" {
		return e, nil
	}
	plan, err := json.Marshal(c)
	if err != nil {
		return e, err
	}
	file := filepath.Join(g.dir, "plan.json")
	if err := os.WriteFile(file, plan, 0o644); err != nil {
		return e, err
	}
	text, err := g.host.Run(ctx, b.self, "-worker", "checks", "-plan", file, "-runs", fmt.Sprint(b.runs))
	if err != nil {
		return e, err
	}
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return e, fmt.Errorf("worker: %w: %s", err, text)
	}
	return e, nil
}

// contest adds the rows of one.
func (r *report) contest(c contest, e effort) {
	own := r.add(c.Name, "ms", e.Own.Wall)
	if c.Lacks != "" {
		r.rows[len(r.rows)-1].Lacks = c.Lacks
		return
	}
	if r.instead(own, c.called(), e.Rival.Wall); e.Missing != "" {
		r.rows[len(r.rows)-1].Lacks = e.Missing
	}
	spent := r.add("  processor time", "ms CPU", e.Own.each())
	r.instead(spent, c.called(), e.Rival.each())
	r.add("  allocated", "kB", sample{e.Bytes / 1000})
	r.add("  in so many pieces", "objects", sample{e.Objects})
}

// contend is the worker: it measures one contest in the namespace it runs in, and prints JSON.
func contend(ctx context.Context, out io.Writer, plan string, runs int) error {
	text, err := os.ReadFile(plan)
	if err != nil {
		return err
	}
	var c contest
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	checker, err := parse(c.Kind, c.TOML)
	if err != nil {
		return err
	}
	var e effort
	if err := e.own(ctx, checker, 50*runs); err != nil {
		return err
	}
	if _, err := exec.LookPath(c.Rival[0]); c.Unable != "" {
		e.Missing = c.Unable
	} else if err != nil {
		e.Missing = c.Rival[0] + " is not installed"
	} else if e.Rival, err = timed(5*runs, syscall.RUSAGE_CHILDREN, func() error { return fork(ctx, c.Rival) }); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(e)
}

// own measures checks one after the other, all of which have to be ok. What the first ones make and keep
// is not counted.
func (e *effort) own(ctx context.Context, c checks.Checker, runs int) error {
	once := func() error {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		if err := c.Check(ctx); err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
		return nil
	}
	for range 10 {
		if err := once(); err != nil {
			return err
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	forked := cpu(syscall.RUSAGE_CHILDREN)
	var err error
	if e.Own, err = timed(runs, syscall.RUSAGE_SELF, once); err != nil {
		return err
	}
	e.Own.CPU += cpu(syscall.RUSAGE_CHILDREN) - forked
	runtime.ReadMemStats(&after)
	e.Objects = float64(after.Mallocs-before.Mallocs) / float64(runs)
	e.Bytes = float64(after.TotalAlloc-before.TotalAlloc) / float64(runs)
	return nil
}

// fork runs a program, which has to exit 0.
func fork(ctx context.Context, args []string) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%q: %w: %s", args, err, out)
	}
	return nil
}

// parse makes a checker as the agent does.
func parse(kind, text string) (checks.Checker, error) {
	spec, ok := kinds.New(kind)
	if !ok {
		return nil, fmt.Errorf("there is no kind %q", kind)
	}
	md, err := toml.Decode(text, spec)
	if err != nil {
		return nil, err
	}
	if left := md.Undecoded(); len(left) > 0 {
		return nil, fmt.Errorf("unknown keys %v", left)
	}
	for _, p := range spec.Validate() {
		return nil, fmt.Errorf("%s %s %s: %s", p.Key, p.What, p.Got, p.WayOut)
	}
	return spec.New()
}
