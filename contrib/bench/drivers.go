package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"vouch/routers"
	"vouch/routers/bird"
	"vouch/routers/bird/ctl"
	"vouch/routers/bird/include"
	"vouch/routers/frr"
	"vouch/routers/lab"
)

// A subject is one driver in one network, whose core is FRR.
type subject struct {
	name    string
	network lab.AnycastOptions
	driver  func(nd *lab.AnycastNode) routers.Router
}

func birds(r lab.Release, way lab.Way, o bird.Options) subject {
	network := lab.AnycastOptions{BGP: true, Nodes: r, Way: way, NoUnbound: true}
	if way >= lab.Switch { // as vouch leaves it for a service that is withdrawn
		v := ctl.Version{Major: 2, Minor: 17}
		if r == lab.BIRDHost {
			v = ctl.Version{Major: 2}
		}
		network.Files = map[string]string{lab.IncludeFile: string(include.Render(include.Format{Style: o.Style, Version: v},
			[]include.Entry{{Prefix: lab.Service, Want: routers.Withdrawn, Symbol: o.Symbol, Worse: o.Degraded.Symbol}}))}
	}
	return subject{fmt.Sprintf("%s, %s, bgp", r, way), network, func(nd *lab.AnycastNode) routers.Router {
		o.Socket, o.Include = nd.BIRD.Socket(), nd.BIRD.Path(lab.IncludeFile)
		return bird.New(o)
	}}
}

func frrs(r lab.Release, bgp bool, o frr.Options) subject {
	protocol := map[bool]string{false: frr.ProtocolOSPF, true: frr.ProtocolBGP}[bgp]
	network := lab.AnycastOptions{BGP: bgp, Nodes: r, NoUnbound: true, NoMinArrival: !bgp}
	if o.Method == frr.MethodNetwork {
		network.NoStatements = true
		network.NodeConfig = "ip route 10.53.53.53/32 blackhole\n"
	}
	return subject{fmt.Sprintf("%s, %s, %s", r, o.Method, protocol), network, func(nd *lab.AnycastNode) routers.Router {
		o.SocketDir, o.Protocol, o.Unpaced = nd.FRR.SocketDir(), protocol, !bgp
		return frr.New(o)
	}}
}

func subjects() []subject {
	off := bird.Options{Method: bird.MethodInclude, Style: bird.StyleSwitch, Symbol: "RESOLVER_OFF", Degraded: bird.Degraded{Symbol: "RESOLVER_DEGRADED_OFF"}}
	return []subject{
		frrs(lab.FRRHost, false, frr.Options{Method: frr.MethodAddress}),
		frrs(lab.FRRHost, true, frr.Options{Method: frr.MethodAddress}),
		frrs(lab.FRR10, false, frr.Options{Method: frr.MethodAddress}),
		birds(lab.BIRDHost, lab.Direct, bird.Options{}),
		birds(lab.BIRDHost, lab.Protocol, bird.Options{Method: bird.MethodProtocol, Symbol: "anycast_{service}"}),
		birds(lab.BIRDHost, lab.Switch, off),
		birds(lab.BIRDHost, lab.Routes, bird.Options{Method: bird.MethodInclude, Style: bird.StyleRoutes, Symbol: "vouch4"}),
		birds(lab.BIRD3, lab.Switch, off),
	}
}

// drivers measures, for each driver, how long after it was asked the core's kernel table has changed.
func (b *bench) drivers(ctx context.Context, r *report) error {
	var failed []error
	for _, s := range subjects() {
		progress("drivers: %s", s.name)
		if err := b.driver(ctx, s, r); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	return errors.Join(failed...)
}

func (b *bench) driver(ctx context.Context, s subject, r *report) (err error) {
	l, err := lab.Anycast(ctx, s.network)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	nd := l.Nodes[0]
	f, err := l.Core.FollowNextHops(ctx, lab.Service)
	if err != nil {
		return err
	}
	defer f.Stop()
	router := s.driver(nd)
	defer func() { err = errors.Join(err, router.Close()) }()
	if labeled, ok := router.(routers.Labeled); ok {
		labeled.SetLabels(map[netip.Prefix]routers.Label{lab.Service: {Service: "resolver"}})
	}
	took := map[routers.Want]*sample{routers.Announced: {}, routers.Withdrawn: {}}
	for i := range 2 * b.runs {
		want := []routers.Want{routers.Announced, routers.Withdrawn}[i%2]
		if err := l.Quiet(ctx, nd); err != nil {
			return err
		}
		asked := time.Now()
		if err := nd.Do(func() error { return router.Apply(ctx, []routers.Change{{Prefix: lab.Service, Want: want}}) }); err != nil {
			return err
		}
		waiting, cancel := context.WithTimeout(ctx, 20*time.Second)
		seen, err := f.Await(waiting, asked, func(hops []netip.Addr) bool {
			return slices.Contains(hops, nd.Via) == (want == routers.Announced)
		})
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", want, err)
		}
		took[want].ms(seen.Time.Sub(asked))
	}
	r.add(s.name+": asked to gone at the core", "ms", *took[routers.Withdrawn])
	r.add(s.name+": asked to there at the core", "ms", *took[routers.Announced])
	return nil
}
