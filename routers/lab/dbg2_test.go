package lab_test

import (
	"testing"
	"time"
	"context"
	"os"

	"vouch/routers/lab"
)

func TestDbg2(t *testing.T) {
	o := lab.AnycastOptions{BGP: os.Getenv("DBG") == "bgp", IPv6: true, NoUnbound: true}
	for _, r := range append(lab.FRRs, lab.BIRDs...) {
		if r.String() == os.Getenv("CORE") { o.Core = r }
		if r.String() == os.Getenv("NODE") { o.Nodes = r }
	}
	l := lab.OpenAnycast(t, o)
	f := follow(t, l, lab.Service6)
	address(t, l.Nodes[0], "add", lab.Service6)
	address(t, l.Nodes[1], "add", lab.Service6)
	becomes(t, f, time.Now(), l.Nodes[0].Via6, l.Nodes[1].Via6)
	l.Quiet(t.Context(), l.Nodes[0])
	address(t, l.Nodes[0], "del", lab.Service6)
	for range 6 {
		time.Sleep(4*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		s, _ := l.CoreFRR.Show(ctx, "ospf6d", "show ipv6 ospf6 route 2001:db8:53::53/128 detail")
		s2, _ := l.CoreFRR.Show(ctx, "ospf6d", "show ipv6 ospf6 database intra-prefix adv-router 10.0.1.2 detail")
		s3, _ := l.CoreFRR.Show(ctx, "zebra", "show ipv6 route 2001:db8:53::53/128")
		cancel()
		t.Logf("%s\n%s\n%s", s, s2, s3)
	}
}
