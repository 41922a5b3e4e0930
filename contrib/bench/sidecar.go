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

	"vouch/routers"
	"vouch/routers/lab"
)

// A service is one of a configuration.
type service struct {
	name     string
	prefixes []netip.Prefix
	timing   string // lines of its table
	checks   string // tables, each headed by [service.NAME.check.…]
}

// configuration gives a vouch.toml.
func configuration(dir, sockets string, services ...service) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[agent]\nstate_file = %q\n\n[control]\nsocket = %q\n\n[router]\ndaemon = \"frr\"\nmethod = \"address\"\nsocket_dir = %q\n",
		filepath.Join(dir, "state.json"), filepath.Join(dir, "control.sock"), sockets)
	for _, s := range services {
		var quoted []string
		for _, p := range s.prefixes {
			quoted = append(quoted, fmt.Sprintf("%q", p.String()))
		}
		fmt.Fprintf(&b, "\n[service.%s]\nprefixes = [%s]\n%s\n\n%s", s.name, strings.Join(quoted, ", "), s.timing, s.checks)
	}
	return b.String()
}

// check gives the table of a check of a service.
func check(service, kind string, lines ...string) string {
	return fmt.Sprintf("[service.%s.check.%s]\ntype = %q\n%s\n\n", service, kind, kind, strings.Join(lines, "\n"))
}

// dnsCheck asks the node's own unbound.
func dnsCheck(service string) string {
	return check(service, "dns", `server = "127.0.0.1:53"`, fmt.Sprintf("name = %q", lab.HealthName), `qtype = "A"`)
}

// A sidecar is vouch on the first node of a network.
type sidecar struct {
	program, socket string
	net             *network
	node            *lab.Node
	proc            *lab.Proc
}

// leave stops vouch, and takes from lo what it leaves there: the next one is to begin with nothing.
func (s *sidecar) leave(ctx context.Context) error {
	if err := s.proc.Stop(); err != nil {
		return err
	}
	var left []netip.Prefix
	for _, a := range s.net.lo.Now().Addrs {
		left = append(left, netip.PrefixFrom(a, a.BitLen()))
	}
	began := time.Now()
	if err := s.net.byHand(ctx, s.node, "del", left); err != nil {
		return err
	}
	_, err := s.net.lo.Await(ctx, began, func(on []netip.Addr) bool { return len(on) == 0 })
	return err
}

// vouches starts vouch on a node that announces nothing and waits until all prefixes of its services
// are on lo, and OSPF is quiet.
func (b *bench) vouches(ctx context.Context, n *network, services ...service) (*sidecar, error) {
	if on, err := n.node.Addresses("lo"); err != nil || len(on) > 0 {
		return nil, errors.Join(err, fmt.Errorf("%v on lo before vouch is started", on))
	}
	dir, err := os.MkdirTemp(n.node.Dir(), "vouch-")
	if err != nil {
		return nil, err
	}
	s := &sidecar{program: b.vouch, socket: filepath.Join(dir, "control.sock"), net: n, node: n.node.Node}
	file := filepath.Join(dir, "vouch.toml")
	if err := os.WriteFile(file, []byte(configuration(dir, n.node.FRR.SocketDir(), services...)), 0o644); err != nil {
		return nil, err
	}
	began := time.Now()
	if s.proc, err = n.node.Start("vouch", b.vouch, "run", "--config", file); err != nil {
		return nil, err
	}
	var want int
	for _, sv := range services {
		want += len(sv.prefixes)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if _, err = n.lo.Await(ctx, began, func(on []netip.Addr) bool { return len(on) == want }); err == nil {
		err = n.quiet(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w\n%s", err, s.proc.Log()), s.proc.Stop())
	}
	return s, nil
}

// tell gives vouch an order, such as drain, and does not wait for what comes of it.
func (s *sidecar) tell(ctx context.Context, order, service string) error {
	_, err := s.node.Run(ctx, s.program, order, service, "--no-wait", "--socket", s.socket)
	return err
}

// An event is the part of an event of vouch that is read here.
type event struct {
	Time   time.Time `json:"time"`
	Kind   string    `json:"kind"`
	Prefix string    `json:"prefix"`
	Stage  string    `json:"stage"`
}

func (s *sidecar) events(ctx context.Context) ([]event, error) {
	out, err := s.node.Run(ctx, s.program, "events", "--json", "--last", "100", "--socket", s.socket)
	if err != nil {
		return nil, err
	}
	return readEvents(out)
}

// readEvents reads one JSON object after the other.
func readEvents(text string) ([]event, error) {
	var es []event
	for d := json.NewDecoder(strings.NewReader(text)); d.More(); {
		var e event
		if err := d.Decode(&e); err != nil {
			return nil, fmt.Errorf("events: %w", err)
		}
		es = append(es, e)
	}
	return es, nil
}

// decided gives when vouch decided anew, first after since.
func (s *sidecar) decided(ctx context.Context, since time.Time) (time.Time, error) {
	return s.when(ctx, "a decision", func(es []event) time.Time { return decision(es, since) })
}

func decision(es []event, since time.Time) time.Time {
	for _, e := range es {
		if e.Kind == "decision" && !e.Time.Before(since) {
			return e.Time
		}
	}
	return time.Time{}
}

// verified gives when vouch had read a number of prefixes to be announced, or withdrawn, after since.
func (s *sidecar) verified(ctx context.Context, since time.Time, prefixes int, there bool) (time.Time, error) {
	stage := routers.Absent
	if there {
		stage = routers.Advertised
	}
	return s.when(ctx, fmt.Sprintf("%d times %s", prefixes, stage), func(es []event) time.Time {
		return staged(es, since, prefixes, stage)
	})
}

// staged gives when the last of a number of prefixes came to a stage, each the first time after since.
func staged(es []event, since time.Time, prefixes int, stage routers.Stage) time.Time {
	seen := map[string]bool{}
	for _, e := range es {
		if e.Kind != "stage" || e.Stage != stage.String() || e.Time.Before(since) {
			continue
		}
		if seen[e.Prefix] = true; len(seen) == prefixes {
			return e.Time
		}
	}
	return time.Time{}
}

// when waits until the events tell a time.
func (s *sidecar) when(ctx context.Context, what string, find func([]event) time.Time) (at time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	err = lab.Wait(ctx, "vouch to tell of "+what, 100*time.Millisecond, func() (bool, error) {
		es, err := s.events(ctx)
		if err != nil {
			return false, err
		}
		at = find(es)
		return !at.IsZero(), nil
	})
	return at, err
}
