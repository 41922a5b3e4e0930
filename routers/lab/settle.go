package lab

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// defaults are the default routes by family.
var defaults = map[int]netip.Prefix{4: netip.MustParsePrefix("0.0.0.0/0"), 6: netip.MustParsePrefix("::/0")}

// quietTime is how long the core must have had an LSA before it takes the next one.
const quietTime = minArrival + 100*time.Millisecond

// settle waits until the core and the nodes know of each other what they will, and then gives the
// core the MinLSArrival that it shall have.
func (l *AnycastLab) settle(ctx context.Context, o AnycastOptions) error {
	err := both(func(i int) error {
		for _, v := range o.families() {
			if err := l.Nodes[i].knows(ctx, defaults[v]); err != nil {
				return err
			}
		}
		return l.Quiet(ctx, l.Nodes[i])
	})
	if err != nil || o.BGP || o.NoMinArrival || l.CoreFRR == nil {
		return err
	}
	for _, v := range o.families() {
		process := map[int]string{4: "router ospf", 6: "router ospf6"}[v]
		set := fmt.Sprintf("timers lsa min-arrival %d", minArrival.Milliseconds())
		if _, err := l.CoreFRR.Vtysh(ctx, "configure terminal", process, set); err != nil {
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
// With BGP there is nothing to wait for.
func (l *AnycastLab) Quiet(ctx context.Context, nd *AnycastNode) error {
	if l.options.BGP {
		return nil
	}
	var last map[string]bool
	var since time.Time
	return Wait(ctx, nd.Name()+"'s LSAs to be at the core", 20*time.Millisecond, func() (bool, error) {
		now := time.Now()
		own, core, err := l.databases(ctx, nd)
		if err != nil {
			return false, err
		}
		if len(own) == 0 || !subset(own, core) {
			last = nil
			return false, fmt.Errorf("%s has %v, the core has %v of it", nd.Name(), own, core)
		}
		if !maps.Equal(own, last) {
			last, since = own, now
		}
		return now.Sub(since) >= quietTime, nil
	})
}

// databases gives the LSAs of a node, of all families, as itself and as the core have them.
func (l *AnycastLab) databases(ctx context.Context, nd *AnycastNode) (own, core map[string]bool, err error) {
	own, core = map[string]bool{}, map[string]bool{}
	for _, v := range l.options.families() {
		a, err := database(ctx, nd.FRR, nd.birdOf(v), v, nd.Via)
		if err != nil {
			return nil, nil, err
		}
		b, err := database(ctx, l.CoreFRR, l.coreBIRDOf(v), v, nd.Via)
		if err != nil {
			return nil, nil, err
		}
		maps.Copy(own, a)
		maps.Copy(core, b)
	}
	return own, core, nil
}

// birdOf is the node's daemon for a family, nil when it has FRR.
func (a *AnycastNode) birdOf(v int) *BIRD {
	if v == 6 && a.BIRD6 != nil {
		return a.BIRD6
	}
	return a.BIRD
}

func (l *AnycastLab) coreBIRDOf(v int) *BIRD {
	if v == 6 && l.CoreBIRD6 != nil {
		return l.CoreBIRD6
	}
	return l.CoreBIRD
}

// database asks one of the two daemons for the LSAs that it has of a router.
func database(ctx context.Context, frr *FRR, bird *BIRD, v int, router netip.Addr) (map[string]bool, error) {
	switch {
	case bird != nil:
		text, err := bird.Show(ctx, "show ospf lsadb "+ospfName(bird, v))
		return lsas(text, router, columns{2, 3}, v), err
	case v == 6:
		text, err := frr.Show(ctx, "ospf6d", "show ipv6 ospf database")
		return lsas(text, router, columns{2, 4}, v), err
	}
	text, err := frr.Show(ctx, "ospfd", "show ip ospf database")
	return lsas(text, router, columns{1, 3}, v), err
}

// ospfName is what the lab calls the OSPF protocol of a BIRD.
func ospfName(b *BIRD, v int) string {
	if b.node.name == "core" {
		return fmt.Sprintf("nodes%d", v)
	}
	return fmt.Sprintf("core%d", v)
}

func subset(a, b map[string]bool) bool {
	for k := range a {
		if !b[k] {
			return false
		}
	}
	return true
}

// columns are where a table of LSAs has the router and the sequence number. The link id is before the
// router, and before that the type, but for ospfd, which has a table for each type:
//
//	link id, router, age, sequence number, ...          (ospfd)
//	type, link id, router, age, sequence number, ...    (ospf6d, a line for each part of the LSA)
//	type, link id, router, sequence number, age, ...    (BIRD)
type columns struct{ router, seq int }

// lsaTypes are ospf6d's names for the types of OSPFv3, for which BIRD has numbers. Those of type Lnk stay
// on their link, so the core does not have all of them.
var lsaTypes = map[string]string{"2001": "Rtr", "2009": "INP", "4005": "ASE", "Rtr": "Rtr", "INP": "INP", "ASE": "ASE"}

// lsas finds a router's LSAs in what a daemon prints of its database, and names them alike whichever
// daemon it is: by link id and sequence number, and with OSPFv3 by their type.
func lsas(text string, router netip.Addr, c columns, v int) map[string]bool {
	found := map[string]bool{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) <= c.seq || f[c.router] != router.String() {
			continue
		}
		seq, err := strconv.ParseUint(strings.TrimPrefix(f[c.seq], "0x"), 16, 32)
		if err != nil {
			continue
		}
		name := fmt.Sprintf("%s %x", f[c.router-1], seq)
		if v == 6 {
			kind, ok := lsaTypes[f[c.router-2]]
			if !ok {
				continue
			}
			name = kind + " " + name
		}
		found[name] = true
	}
	return found
}
