package lab_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"vouch/routers/lab"
)

func TestDbg(t *testing.T) {
	o := lab.AnycastOptions{BGP: os.Getenv("DBG") == "bgp", IPv6: true, NoUnbound: true}
	for _, r := range append(lab.FRRs, lab.BIRDs...) {
		if r.String() == os.Getenv("CORE") {
			o.Core = r
		}
		if r.String() == os.Getenv("NODE") {
			o.Nodes = r
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
	defer cancel()
	l, err := lab.AnycastDbg(ctx, o)
	t.Log(err)
	defer l.Close()
	for _, cmd := range strings.Split(os.Getenv("CMDS"), ";") {
		for _, nd := range []struct {
			n     *lab.Node
			f     *lab.FRR
			b, b6 *lab.BIRD
		}{{l.Core, l.CoreFRR, l.CoreBIRD, l.CoreBIRD6}, {l.Nodes[0].Node, l.Nodes[0].FRR, l.Nodes[0].BIRD, l.Nodes[0].BIRD6}} {
			var s string
			var err error
			switch {
			case strings.HasPrefix(cmd, "!"):
				s, err = nd.n.Run(t.Context(), strings.Fields(cmd[1:])...)
			case nd.f != nil && strings.HasPrefix(cmd, "f "):
				s, err = nd.f.Vtysh(t.Context(), cmd[2:])
			case nd.b != nil && strings.HasPrefix(cmd, "b "):
				s, err = nd.b.Show(t.Context(), cmd[2:])
				if nd.b6 != nil {
					s2, _ := nd.b6.Show(t.Context(), cmd[2:])
					s += "--6--\n" + s2
				}
			default:
				continue
			}
			t.Logf("%s> %s\n%s %v", nd.n.Name(), cmd, s, err)
		}
	}
}
