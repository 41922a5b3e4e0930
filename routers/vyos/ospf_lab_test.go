package vyos

import (
	"testing"

	"vouch/routers"
	"vouch/routers/lab"
	"vouch/routers/vyos/vyostest"
)

func TestOSPF(t *testing.T) {
	l := lab.OpenAnycast(t, lab.AnycastOptions{IPv6: true, NoUnbound: true, NoMinArrival: true, Daemons: []string{"staticd"}, CoreConfig: "exit\nno zebra nexthop kernel enable\n",
		NodeOSPF: " redistribute kernel\n redistribute static\n", NodeConfig: " redistribute kernel\n redistribute static\n"})
	b := &bench{t, l, vyostest.New(t, vyostest.Options{SocketDir: l.Nodes[0].FRR.SocketDir()})}
	for _, method := range []string{MethodKernel, MethodStatic} {
		r := b.router(Options{Method: method, Protocol: ProtocolOSPF})
		b.becomes(r, routers.Absent, false, both...)
		b.announced(r, both...)
		b.withdrawn(r, both...)
		worst(t, b.examine(r, both), routers.Warning)
	}
	b.clean()
}
