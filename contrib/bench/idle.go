package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"vouch/routers/lab"
)

const (
	// window is how long the processor time of an idle agent is counted.
	window = 10 * time.Second
	// settleIn is how long an agent runs before that.
	settleIn = 3 * time.Second
	// tick is the unit of the processor time in /proc/PID/stat, which Linux has for all programs.
	tick = 10 * time.Millisecond
)

// idle measures an agent with one service, and one with a hundred.
func (b *bench) idle(ctx context.Context, r *report) error {
	if err := b.rest(ctx, r, 1, "1 service: dns and route each second", []service{{name: "resolver", prefixes: []netip.Prefix{lab.Service},
		timing: "interval = \"1s\"", checks: dnsCheck("resolver") + check("resolver", "route")}}); err != nil {
		return err
	}
	return b.rest(ctx, r, 100, "100 services: dns or tcp each second", nil)
}

// hundred gives a service for each prefix, with a dns check and a tcp check by turns.
func hundred(ps []netip.Prefix) (all []service) {
	for i, p := range ps {
		s := service{name: fmt.Sprintf("s%02d", i), prefixes: []netip.Prefix{p}, timing: "interval = \"1s\""}
		if s.checks = dnsCheck(s.name); i%2 == 1 {
			s.checks = check(s.name, "tcp", `address = "127.0.0.1:53"`)
		}
		all = append(all, s)
	}
	return all
}

// rest measures an agent that has announced everything and goes on checking; without services given,
// it has one for each prefix.
func (b *bench) rest(ctx context.Context, r *report, prefixes int, what string, services []service) (err error) {
	progress("idle: %s", what)
	n, err := open(ctx, prefixes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	if services == nil {
		services = hundred(n.Prefixes)
	}
	s, err := b.vouches(ctx, n, services...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.proc.Stop()) }()
	if err := pause(ctx, settleIn); err != nil {
		return err
	}
	var share, resident, private sample
	for range max(1, b.runs/3) {
		before, err := used(s.proc.PID())
		if err != nil {
			return err
		}
		began := time.Now()
		if err := pause(ctx, window); err != nil {
			return err
		}
		after, err := used(s.proc.PID())
		if err != nil {
			return err
		}
		share = append(share, 100*float64(after.cpu-before.cpu)/float64(time.Since(began)))
		resident, private = append(resident, after.resident), append(private, after.private)
	}
	r.add(what+": CPU", "% of one", share)
	r.add("  resident memory", "MB", resident)
	r.add("  of it not the program's file", "MB", private)
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// A usage is what a process has taken.
type usage struct {
	cpu               time.Duration // since its start
	resident, private float64       // MB of 1000 kB, now; private: not backed by a file
}

// used reads /proc.
func used(pid int) (u usage, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return u, err
	}
	return usageOf(string(stat), string(status))
}

// usageOf reads the texts of /proc/PID/stat and /proc/PID/status (proc(5)).
func usageOf(stat, status string) (u usage, err error) {
	f := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	if len(f) < 13 {
		return u, fmt.Errorf("stat: %d fields after the name", len(f))
	}
	for _, ticks := range f[11:13] { // user and system time: the 14th and 15th of all
		n, err := strconv.ParseInt(ticks, 10, 64)
		if err != nil {
			return u, fmt.Errorf("stat: %w", err)
		}
		u.cpu += time.Duration(n) * tick
	}
	for line := range strings.Lines(status) {
		key, value, _ := strings.Cut(line, ":")
		kb, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
		switch key {
		case "VmRSS":
			u.resident = kb * 1024 / 1e6
		case "RssAnon":
			u.private = kb * 1024 / 1e6
		}
	}
	if u.resident == 0 {
		return u, errors.New("status: no VmRSS")
	}
	return u, nil
}
