package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"vouch/routers/lab"
)

const (
	// beat is between two rounds of each service.
	beat = time.Second
	// trio is how many checks each service has.
	trio = 3
	// handful is how many services a script can check in time on a small machine.
	handful = 20
)

// fleet measures an agent with a thousand services of three checks each, every second, and a script that
// forks three programs for each service instead.
func (b *bench) fleet(ctx context.Context, r *report) (err error) {
	g, err := newGround(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if why, lacks := g.lacks["nginx"]; lacks {
		return errors.New(why)
	}
	runs := max(1, b.runs/3)
	shown.begin("fleet", runs+2)
	own, err := b.sweep(ctx, g, runs)
	if err != nil {
		return err
	}
	small, err := b.swarm(ctx, g, handful)
	if err != nil {
		return err
	}
	shown.step()
	large, err := b.swarm(ctx, g, thousand)
	if err != nil {
		return err
	}
	shown.step()
	r.fleet(own, small, large)
	return nil
}

// fleet adds the rows.
func (r *report) fleet(own sweep, small, large swarm) {
	r.add("CPU", "% of one", own.share)
	each := r.add("  of that for one check", "ms CPU", own.each)
	r.instead(each, fmt.Sprintf("dig, bash, curl, forked for %d services: for one that was ok", small.Services), small.each())
	r.instead(each, fmt.Sprintf("the same for %d services", large.Services), large.each())
	mem := r.add("resident memory", "MB", own.resident)
	r.add("  of it not the program's file", "MB", own.private)
	r.instead(mem, fmt.Sprintf("forked, %d services", large.Services), sample{large.resident})
	r.add("checks made of those that were due", "%", own.made)
	r.add("  and were ok", "%", own.ok)
	r.add("  HTTP requests that nginx counted, of those due", "%", own.served)
	r.add(fmt.Sprintf("  instead: forked, %d services: ok in time, of those due", small.Services), "%", sample{small.onTime()})
	r.add(fmt.Sprintf("  instead: forked, %d services: ok in time, of those due", large.Services), "%", sample{large.onTime()})
}

// A sweep is what was measured of the agent, window by window.
type sweep struct {
	share, each, resident, private, made, ok, served sample
}

// fleetConfiguration has a prefix and three checks for each service.
func fleetConfiguration(dir string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[agent]\nstate_file = %q\n\n[control]\nsocket = %q\n\n[router]\ndaemon = \"kernel\"\nmethod = \"address\"\n",
		filepath.Join(dir, "state.json"), filepath.Join(dir, "control.sock"))
	for i, p := range thousandPrefixes() {
		name := fmt.Sprintf("s%03d", i)
		fmt.Fprintf(&b, "\n[service.%s]\nprefixes = [%q]\ninterval = %q\nrise = 1\n\n%s%s%s", name, p, beat, dnsCheck(name),
			check(name, "tcp", `address = "127.0.0.1:80"`), check(name, "http", `url = "http://127.0.0.1/"`))
	}
	return b.String()
}

// sweep has an agent announce all, and counts what it does then.
func (b *bench) sweep(ctx context.Context, g *ground, runs int) (s sweep, err error) {
	dir := g.dir
	file := filepath.Join(dir, "vouch.toml")
	if err := os.WriteFile(file, []byte(fleetConfiguration(dir)), 0o644); err != nil {
		return s, err
	}
	p, err := g.host.Start("vouch", b.vouch, "run", "--config", file)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	if err := b.risen(ctx, g, p); err != nil {
		return s, err
	}
	for range runs {
		if err := pause(ctx, settleIn); err != nil {
			return s, err
		}
		if err := b.window(ctx, g, p, &s); err != nil {
			return s, err
		}
		shown.step()
	}
	return s, nil
}

// risen waits until every service is up and its prefix announced.
func (b *bench) risen(ctx context.Context, g *ground, p *lab.Proc) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	err := lab.Wait(ctx, fmt.Sprintf("%d prefixes on lo", thousand), 200*time.Millisecond, func() (bool, error) {
		if !p.Running() {
			stop(fmt.Errorf("it ended: %w", p.Err()))
		}
		on, err := g.host.Addresses("lo")
		return err == nil && countIn(on, netip.MustParsePrefix("10.60.0.0/16")) == thousand, err
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, last(p.Log(), 2000))
	}
	return nil
}

func countIn(all []netip.Addr, in netip.Prefix) (n int) {
	for _, a := range all {
		if in.Contains(a) {
			n++
		}
	}
	return n
}

// last gives the end of a text.
func last(text string, n int) string { return text[max(0, len(text)-n):] }

// window counts for the time of one window.
func (b *bench) window(ctx context.Context, g *ground, p *lab.Proc, s *sweep) error {
	before, err := b.standing(ctx, g)
	if err != nil {
		return err
	}
	served, err := g.served(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	start, err := used(p.PID())
	if err != nil {
		return err
	}
	if err := pause(ctx, window); err != nil {
		return err
	}
	end, err := used(p.PID())
	if err != nil {
		return err
	}
	took := time.Since(began)
	now, err := g.served(ctx)
	if err != nil {
		return err
	}
	after, err := b.standing(ctx, g)
	if err != nil {
		return err
	}
	c := tell(before, after, took)
	spent, due := end.cpu-start.cpu, float64(thousand)*float64(took)/float64(beat)
	s.share = append(s.share, 100*float64(spent)/float64(took))
	s.each.ms(time.Duration(float64(spent) / (trio * due)))
	s.resident, s.private = append(s.resident, end.resident), append(s.private, end.private)
	s.made, s.ok = append(s.made, c.made), append(s.ok, c.ok)
	s.served = append(s.served, 100*float64(now-served-1)/due) // one of them was our own question
	return nil
}

// A state is what is read here of one service of the agent.
type state struct {
	Name   string    `json:"name"`
	Rounds int       `json:"rounds"`
	Last   time.Time `json:"last_round"`
	Checks []struct {
		Status string `json:"status"`
	} `json:"checks"`
}

// standing asks the agent where it stands, again if the machine is too busy for an answer in time.
func (b *bench) standing(ctx context.Context, g *ground) (states map[string]state, err error) {
	for range 3 {
		if states, err = b.askOnce(ctx, g); err == nil || ctx.Err() != nil {
			break
		}
	}
	return states, err
}

func (b *bench) askOnce(ctx context.Context, g *ground) (map[string]state, error) {
	out, err := g.host.Run(ctx, b.vouch, "status", "--json", "--socket", filepath.Join(g.dir, "control.sock"))
	if out == "" || out[0] != '{' { // its exit status is 1 when anything is not as it ought to be
		return nil, err
	}
	var all struct {
		Services []state `json:"services"`
	}
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&all); err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	states := map[string]state{}
	for _, s := range all.Services {
		states[s.Name] = s
	}
	return states, nil
}

// A cadence is the share of the rounds due that were made, and of the checks that were ok after them.
type cadence struct{ made, ok float64 }

// tell compares two states at least a time apart: as many rounds were due as there are beats between a
// service's last rounds, and at least as many as there were in that time.
func tell(before, after map[string]state, apart time.Duration) (c cadence) {
	var made, due, ok, all int
	for name, b := range before {
		a := after[name]
		between := max(int(a.Last.Sub(b.Last).Round(beat)/beat), int(apart/beat)-1)
		due += between
		made += min(a.Rounds-b.Rounds, between)
		for _, ch := range a.Checks {
			if all++; ch.Status == "ok" {
				ok++
			}
		}
	}
	return cadence{made: percent(made, due), ok: percent(ok, all)}
}

func percent(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}
