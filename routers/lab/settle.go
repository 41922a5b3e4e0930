package lab

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A family is what differs between OSPFv2 and OSPFv3.
type family struct {
	defaults netip.Prefix
	daemon   string
	database string // the command that shows the LSAs
	process  string // the command that leads to the process's configuration
}

func families(o AnycastOptions) []family {
	fs := []family{{netip.MustParsePrefix("0.0.0.0/0"), "ospfd", "show ip ospf database", "router ospf"}}
	if o.IPv6 {
		fs = append(fs, family{netip.MustParsePrefix("::/0"), "ospf6d", "show ipv6 ospf database", "router ospf6"})
	}
	return fs
}

// settle waits until the core and the nodes know of each other what they will, and then gives the
// core the MinLSArrival that it shall have.
func (l *AnycastLab) settle(ctx context.Context, o AnycastOptions) error {
	err := both(func(i int) error {
		for _, f := range l.families {
			if err := l.Nodes[i].knows(ctx, f.defaults); err != nil {
				return err
			}
			if err := l.same(ctx, l.Nodes[i], f, minArrival+100*time.Millisecond); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || o.NoMinArrival {
		return err
	}
	for _, f := range l.families {
		set := fmt.Sprintf("timers lsa min-arrival %d", minArrival.Milliseconds())
		if _, err := l.CoreFRR.Vtysh(ctx, "configure terminal", f.process, set); err != nil {
			return err
		}
	}
	return nil
}

// knows waits until the node's kernel has a route to the prefix.
func (a *AnycastNode) knows(ctx context.Context, prefix netip.Prefix) error {
	return Wait(ctx, a.Name()+" to have a route to "+prefix.String(), 20*time.Millisecond, func() (bool, error) {
		via, err := a.NextHops(prefix)
		return len(via) > 0, err
	})
}

// Quiet waits until the core has had what the node last told it by OSPF for more than a second.
// Before that the core drops the next change, and learns of it 5 to 10 s later (MinLSArrival, RFC
// 2328 section 13; seen with FRR 8.4.4). A test that measures how fast a change shows must not
// measure this. When the core took an LSA cannot be asked, so this takes more than a second always.
func (l *AnycastLab) Quiet(ctx context.Context, nd *AnycastNode) error {
	for _, f := range l.families {
		if err := l.same(ctx, nd, f, minArrival+100*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// same waits until the core has the same LSAs of the node as the node, for as long as given.
func (l *AnycastLab) same(ctx context.Context, nd *AnycastNode, f family, long time.Duration) error {
	var last map[string]bool
	var since time.Time
	return Wait(ctx, nd.Name()+"'s LSAs to be at the core", 20*time.Millisecond, func() (bool, error) {
		now := time.Now()
		own, err := nd.FRR.Show(ctx, f.daemon, f.database)
		if err != nil {
			return false, err
		}
		core, err := l.CoreFRR.Show(ctx, f.daemon, f.database)
		if err != nil {
			return false, err
		}
		all := lsas(own, nd.Via.String())
		if len(all) == 0 || !subset(all, lsas(core, nd.Via.String())) {
			last = nil
			return false, fmt.Errorf("%s has %v, the core has other ones of it", nd.Name(), slices.Sorted(maps.Keys(all)))
		}
		if !maps.Equal(all, last) {
			last, since = all, now
		}
		return time.Since(since) >= long, nil
	})
}

func subset(a, b map[string]bool) bool {
	for k := range a {
		if !b[k] {
			return false
		}
	}
	return true
}

// lsas finds a router's LSAs in what `show ip ospf database` or `show ipv6 ospf database` prints,
// and gives their lines without the ages. The columns are
//
//	link id, router, age, sequence number, ...          (OSPFv2)
//	type, link id, router, age, sequence number, ...    (OSPFv3)
func lsas(text, router string) map[string]bool {
	found := map[string]bool{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		for _, col := range []int{1, 2} {
			if len(f) < col+3 || f[col] != router {
				continue
			}
			if _, err := strconv.Atoi(f[col+1]); err == nil {
				found[strings.Join(slices.Delete(f, col+1, col+2), " ")] = true
			}
			break
		}
	}
	return found
}
