package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"vouch/checks"
	"vouch/checks/address"
	"vouch/checks/dns"
	"vouch/checks/route"
	"vouch/checks/tcp"
	"vouch/routers/lab"
)

// Rounds are what a worker measured: rounds by the Runner, and the same four things asked by four
// programs, one after the other and side by side.
type rounds struct {
	Runner   cost   `json:"runner"`
	Serial   cost   `json:"serial"`
	Parallel cost   `json:"parallel"`
	Programs string `json:"programs"`
}

// round measures rounds of checks, in a process of its own inside the first node.
func (b *bench) round(ctx context.Context, r *report) (err error) {
	n, err := open(ctx, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	text, err := n.node.Run(ctx, b.self, "-worker", "round", "-runs", fmt.Sprint(b.runs))
	if err != nil {
		return err
	}
	var got rounds
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		return fmt.Errorf("worker: %w: %s", err, text)
	}
	own := r.add("side by side", "ms", got.Runner.Wall)
	r.instead(own, "forked one by one: "+got.Programs, got.Serial.Wall)
	r.instead(own, "forked side by side", got.Parallel.Wall)
	r.instead(r.add("  processor time of that", "ms CPU", got.Runner.each()), "forked", got.Serial.each())
	return nil
}

// work is the worker: it measures in the namespace it runs in, and prints JSON.
func work(ctx context.Context, out io.Writer, runs int) error {
	var got rounds
	var err error
	if got.Runner, err = ownRounds(ctx, 20*runs); err != nil {
		return err
	}
	programs, names := instead()
	got.Programs = names
	if got.Serial, err = timed(5*runs, syscall.RUSAGE_CHILDREN, func() error {
		var errs []error
		for _, p := range programs {
			errs = append(errs, exec.CommandContext(ctx, p[0], p[1:]...).Run())
		}
		return errors.Join(errs...)
	}); err != nil {
		return err
	}
	if got.Parallel, err = timed(5*runs, syscall.RUSAGE_CHILDREN, func() error { return sideBySide(ctx, programs) }); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(got)
}

// instead gives programs that ask the same four things. Where there is no dig, true stands for it as
// for the connection: it costs the fork and nothing else.
func instead() (programs [][]string, names string) {
	ask, name := []string{"true"}, "true for dig"
	if _, err := exec.LookPath("dig"); err == nil {
		ask, name = []string{"dig", "+short", "+tries=1", "+time=1", "@127.0.0.1", lab.HealthName, "A"}, "dig"
	}
	return [][]string{ask, {"ip", "route", "show", "default"}, {"ip", "addr", "show", "dev", "eth0"}, {"true"}}, name + ", ip, ip, true for tcp"
}

func sideBySide(ctx context.Context, programs [][]string) error {
	errs := make([]error, len(programs))
	var wg sync.WaitGroup
	for i, p := range programs {
		wg.Go(func() { errs[i] = exec.CommandContext(ctx, p[0], p[1:]...).Run() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// pace is between two rounds of the worker.
const pace = 20 * time.Millisecond

// ownRounds runs a number of rounds through the Runner, all of which have to be good.
func ownRounds(ctx context.Context, runs int) (c cost, err error) {
	greeter, stop, err := greet()
	if err != nil {
		return c, err
	}
	defer stop()
	probes, err := fourProbes(greeter)
	if err != nil {
		return c, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	before := cpu(syscall.RUSAGE_SELF)
	err = checks.NewRunner("resolver", probes, pace, nil, func(_ context.Context, r checks.Round) time.Duration {
		for i, res := range r.Results {
			if res.Status() != checks.OK {
				cancel(fmt.Errorf("%s: %v", probes[i].Name, res.Err))
			}
		}
		if c.Wall.ms(r.Took); len(c.Wall) == runs {
			cancel(nil)
		}
		return pace
	}).Run(ctx)
	c.CPU = cpu(syscall.RUSAGE_SELF) - before
	if cause := context.Cause(ctx); cause != context.Canceled {
		err = errors.Join(err, cause)
	}
	return c, err
}

// fourProbes gives one of each kind that can be measured here.
func fourProbes(greeter string) (ps []checks.Probe, err error) {
	for _, p := range []struct {
		name string
		spec checks.Spec
	}{
		{"dns", &dns.Spec{Server: "127.0.0.1:53", Name: lab.HealthName, Qtype: "A"}},
		{"route", &route.Spec{}},
		{"address", &address.Spec{Address: "10.0.1.2", Interface: "eth0"}},
		{"tcp", &tcp.Spec{Address: greeter, Expect: greeting}},
	} {
		for _, problem := range p.spec.Validate() {
			return nil, fmt.Errorf("%s: %s %s", p.name, problem.Key, problem.What)
		}
		c, err := p.spec.New()
		if err != nil {
			return nil, err
		}
		ps = append(ps, checks.Probe{Name: p.name, Checker: c, Timeout: time.Second})
	}
	return ps, nil
}

const greeting = "220 ready"

// greet is a server that says something to whoever connects, until it is stopped.
func greet() (address string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	var serving sync.WaitGroup
	serving.Go(func() { greetAll(l) })
	return l.Addr().String(), func() { _ = l.Close(); serving.Wait() }, nil
}

func greetAll(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_ = c.SetDeadline(time.Now().Add(time.Second))
		_, _ = c.Write([]byte(greeting))
		_ = c.Close()
	}
}
