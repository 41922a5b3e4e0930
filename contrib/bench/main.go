// Command bench measures vouch on networks of its own, with real FRR, BIRD and unbound in namespaces,
// against what would be used instead of it. It prints medians, extremes and ratios, and passes or
// fails nothing.
//
// It needs root, iproute2, FRR, BIRD and unbound, and for the rows of VyOS Go and this tree. Its exit status
// is 0 if all was measured, 1 if a part could not be, 2 if it could not begin.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"vouch/routers/lab"
)

func main() { os.Exit(run()) }

func run() int {
	var o options
	flag.StringVar(&o.vouch, "vouch", "./vouch", "the `program` vouch")
	flag.StringVar(&o.only, "only", "", "measure one part only, by its `name`: "+strings.Join(names(), ", "))
	flag.IntVar(&o.runs, "runs", 10, "how often each thing is measured")
	flag.BoolVar(&o.json, "json", false, "print one JSON object")
	worker := flag.String("worker", "", "measure a `part` in the network namespace this runs in; used by this program itself")
	plan := flag.String("plan", "", "the `file` that says what a worker measures")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	switch *worker {
	case "":
		return status(measure(ctx, o))
	case "round":
		return status(work(ctx, os.Stdout, o.runs))
	case "checks":
		return status(contend(ctx, os.Stdout, *plan, o.runs))
	case "swarm":
		return status(swarmFor(ctx, os.Stdout, o.runs))
	}
	return status(fmt.Errorf("-worker %s: no such worker", *worker))
}

// errPart says that the parts which could be measured were printed, and others could not be.
var errPart = errors.New("not all could be measured")

func status(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	if errors.Is(err, errPart) {
		return 1
	}
	return 2
}

type options struct {
	vouch, only string
	runs        int
	json        bool
}

// A part measures one thing, on networks of its own, and adds to the report.
type part struct {
	name, what string
	measure    func(b *bench, ctx context.Context, r *report) error
}

var parts = []part{
	{"query", "one question to FRR", (*bench).query},
	{"change", "one FRR prefix changed and read back", (*bench).change},
	{"frr", "FRR: a thousand prefixes in one session", (*bench).frr},
	{"bird", "BIRD: one question, and a thousand prefixes at once", (*bench).bird},
	{"drivers", "from asking to the core's kernel table, by driver and method", (*bench).drivers},
	{"core", "from the decision to the core's kernel table", (*bench).core},
	{"fault", "from a fault to the address off lo", (*bench).fault},
	{"round", "one round of checks: dns, route, address, tcp", (*bench).round},
	{"checks", "one check of each kind", (*bench).checks},
	{"fleet", "1000 services with three checks each second", (*bench).fleet},
	{"idle", "an agent with nothing to do", (*bench).idle},
	{"loss", "queries that the client lost", (*bench).loss},
}

func names() []string {
	var ns []string
	for _, p := range parts {
		ns = append(ns, p.name)
	}
	return ns
}

// A bench is what all parts need.
type bench struct {
	vouch, self string // programs, by absolute paths
	runs        int
}

// perPart is how long a part may take, beside what each run adds to that.
const perPart, perRun = 4 * time.Minute, 2 * time.Minute

// measure measures the parts asked for and prints what came of them, also when some failed.
func measure(ctx context.Context, o options) error {
	b, err := newBench(o)
	if err != nil {
		return err
	}
	m := machine{CPUs: runtime.NumCPU(), Load: load(), Go: runtime.Version()}
	m.FRR, _ = lab.FRRVersion(ctx)
	var rows []row
	var failed []error
	chosen := choose(o.only)
	for i, p := range chosen {
		if ctx.Err() != nil {
			break
		}
		progress("%d of %d: %s: %s", i+1, len(chosen), p.name, p.what)
		r := report{part: p.name + ": " + p.what}
		if err := b.part(ctx, p, &r); err != nil {
			failed = append(failed, fmt.Errorf("%w: %s: %w", errPart, p.name, err))
			progress("%s: %v", p.name, err)
		}
		rows = append(rows, r.rows...)
	}
	if ctx.Err() != nil {
		failed = append(failed, fmt.Errorf("%w: interrupted", errPart))
	}
	return errors.Join(append(failed, printAll(os.Stdout, m, rows, o.json))...)
}

// choose gives the part of a name, or all.
func choose(only string) []part {
	return slices.DeleteFunc(slices.Clone(parts), func(p part) bool { return only != "" && p.name != only })
}

func (b *bench) part(ctx context.Context, p part, r *report) error {
	ctx, cancel := context.WithTimeout(ctx, perPart+time.Duration(b.runs)*perRun)
	defer cancel()
	return p.measure(b, ctx, r)
}

// newBench says what is missing before anything is begun.
func newBench(o options) (*bench, error) {
	if o.runs < 1 {
		return nil, fmt.Errorf("-runs %d: must be at least 1", o.runs)
	}
	if o.only != "" && !slices.Contains(names(), o.only) {
		return nil, fmt.Errorf("-only %s: no such part: name one of %s", o.only, strings.Join(names(), ", "))
	}
	program, err := exec.LookPath(o.vouch)
	if err == nil {
		program, err = filepath.Abs(program)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: build it with `make build`, or name it with -vouch", err)
	}
	if missing := lab.Missing(); len(missing) > 0 {
		return nil, fmt.Errorf("missing %s: run `make deps` as root", strings.Join(missing, ", "))
	}
	self, err := os.Executable()
	return &bench{vouch: program, self: self, runs: o.runs}, err
}

// few is the number of runs of what takes long each time.
func (b *bench) few() int { return max(min(b.runs, 3), b.runs/3) }

// load gives the machine's load averages.
func load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	if f := strings.Fields(string(text)); len(f) >= 3 {
		return strings.Join(f[:3], " ")
	}
	return ""
}
