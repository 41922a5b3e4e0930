// Command demo shows what vouch does, on a network of its own: a client asks an anycast resolver
// through a core router that spreads over two nodes; vouch runs on both. Things break, and a
// timeline says when the core and the client saw what.
//
// It needs root, iproute2, FRR and unbound. Its exit status is 0 if all was as promised, 1 if not,
// 2 if it could not be run.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
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
	flag.BoolVar(&o.keep, "keep", false, "leave the network up at the end and say how to look around")
	flag.BoolVar(&o.json, "json", false, "one JSON object for each line")
	down := flag.String("down", "", "remove the network of this `id` that -keep left, or all of them, and do nothing else")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if *down != "" {
		return report(removeKept(*down))
	}
	ok, err := play(ctx, o)
	if code := report(err); code != 0 {
		return code
	}
	if !ok {
		return 1
	}
	return 0
}

func report(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "demo:", err)
	return 2
}

// removeKept removes one network that was kept, or all.
func removeKept(which string) error {
	kept := lab.Kept()
	if which != "all" {
		if !slices.Contains(kept, which) {
			return fmt.Errorf("no network %q was kept; there are: %s", which, cmp.Or(strings.Join(kept, ", "), "none"))
		}
		kept = []string{which}
	}
	var errs []error
	for _, id := range kept {
		if err := lab.Remove(id); err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Println("removed", id)
	}
	return errors.Join(errs...)
}

type options struct {
	vouch      string
	keep, json bool
}

// play brings the network up, plays the scenes, and says whether all was as promised.
func play(ctx context.Context, o options) (ok bool, err error) {
	program, err := exec.LookPath(o.vouch)
	if err == nil {
		program, err = filepath.Abs(program)
	}
	if err != nil {
		return false, fmt.Errorf("%w: build it with `make build`, or name it with -vouch", err)
	}
	if missing := lab.Missing(); len(missing) > 0 {
		return false, fmt.Errorf("missing %s: run `make deps` as root", strings.Join(missing, ", "))
	}
	began := time.Now()
	line := newTimeline(os.Stdout, o.json)
	setup, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	l, err := lab.Anycast(setup, lab.AnycastOptions{Keep: o.keep, NoMinArrival: true})
	if err != nil {
		return false, err
	}
	defer func() {
		if !o.keep || err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	line.say(time.Now(), "demo", fmt.Sprintf("network %s is up: client - core - apu01, apu02; OSPF with hellos each second, equal paths for %s", l.ID(), lab.Service))
	line.say(time.Now(), "demo", `the core has "timers lsa min-arrival 0", and so vouch "unpaced = true": see OSPF's second in the README`)
	s, err := newStage(ctx, l, line, program)
	if err != nil {
		return false, err
	}
	failed := s.playAll(ctx)
	if err := s.end(); err != nil {
		return false, err
	}
	if ctx.Err() != nil {
		return false, errors.New("interrupted")
	}
	line.summary(failed, time.Since(began))
	if len(failed) > 0 && !o.keep {
		s.logs(os.Stderr)
	}
	if o.keep {
		out := os.Stdout
		if o.json {
			out = os.Stderr
		}
		fmt.Fprint(out, s.hints())
	}
	return len(failed) == 0, nil
}
