package rtnl

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// long gives n ip commands that add or delete routes of table 100, which no rule asks.
func long(command, net string, n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf("route %s %s:%x::/48 via fd00:1::1 table 100", command, net, i)
	}
	return lines
}

// TestLongDumpPassesOverRoutes shows why a long IPv6 dump is not believed when it finds nothing:
// the kernel leaves out a default route that stands, without a word, and only the messages of the
// changes betray it.
func TestLongDumpPassesOverRoutes(t *testing.T) {
	twoPairs(t)
	ip(t, append(long("add", "2001:1", 4000), "route add ::/0 via fd00:1::1 table 100")...)
	changes, err := listen([]int{unix.RTNLGRP_IPV6_ROUTE})
	if err != nil {
		t.Fatal(err)
	}
	defer changes.close()
	if !changes.quiet() {
		t.Fatal("there are messages before the change")
	}
	c, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	seen, found := 0, false
	err = c.dump(unhurried(t), routeRequest(IPv6, 100), func(data []byte) bool {
		if seen++; seen == 1000 {
			ip(t, append(long("del", "2001:1", 3900), "route add 2001:2::/48 via fd00:1::1 table 100")...)
		}
		_, ok := parseDefault(data, 100)
		found = found || ok
		return true
	})
	t.Logf("the dump gave %d routes, the default route among them: %t, error: %v", seen, found, err)
	if changes.quiet() {
		t.Error("no message tells of the change")
	}
}

// TestChurnNeverHidesDefaultRoute reads a table of which much is deleted meanwhile. It may be
// impossible to tell (errInterrupted), but the default route is never said to be absent.
func TestChurnNeverHidesDefaultRoute(t *testing.T) {
	ns := twoPairs(t)
	ip(t, append(long("add", "2001:1", 20000), "route add ::/0 via fd00:1::1 table 100")...)
	var churn []string
	for i, line := range long("del", "2001:1", 20000) {
		churn = append(churn, line)
		if i%250 == 0 {
			churn = append(churn, fmt.Sprintf("route add 2001:2:%x::/48 via fd00:1::1 table 100", i))
		}
	}
	done := make(chan struct{})
	ns.Go(func() {
		defer close(done)
		ip(t, churn...)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // a busy machine takes more than a second for a reading
	defer cancel()
	for reads := 1; ; reads++ {
		d, err := DefaultRoute(ctx, IPv6, 100)
		if err == nil && !d.Usable || err != nil && !errors.Is(err, errInterrupted) {
			t.Errorf("reading %d: %+v, %v", reads, d, err)
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

// TestChosen is what keeps a long IPv6 table cheap: the kernel's own choice is believed when it is a
// default route of the table, and only then.
func TestChosen(t *testing.T) {
	twoPairs(t)
	ip(t, "route add ::/0 via fd00:1::1")
	if p, err := chosen(unhurried(t), IPv6, MainTable); err != nil || p.judge(IPv6, nil) != good("via fd00:1::1 dev eth0") {
		t.Errorf("default route in the main table: %+v, %v", p, err)
	}
	if p, _ := chosen(unhurried(t), IPv6, 100); p.routes != nil {
		t.Errorf("default route in another table: %+v", p)
	}
	ip(t, "route add 4000::/3 via fd00:2::1")
	if p, _ := chosen(unhurried(t), IPv6, MainTable); p.routes != nil {
		t.Errorf("more specific route: %+v", p)
	}
	if d := defaultRoute(t, IPv6, MainTable); d != good("via fd00:1::1 dev eth0") {
		t.Errorf("default route beside a more specific one: %+v", d)
	}
	ip(t, "route del ::/0 via fd00:1::1", "route del 4000::/3 via fd00:2::1")
	if p, err := chosen(unhurried(t), IPv6, MainTable); !errors.Is(err, refusal("")) {
		t.Errorf("no default route: %+v, %v", p, err)
	}
}
