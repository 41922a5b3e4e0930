package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"vouch/routers"
	"vouch/routers/bird"
	"vouch/routers/frr"
	"vouch/routers/kernel"
	"vouch/routers/lab"
	"vouch/routers/program"
)

// A site is one network, whose core is FRR 8.4.4, with the drivers that are measured in it one after the
// other.
type site struct {
	release  lab.Release
	network  lab.AnycastOptions
	subjects []subject
}

// A subject is one driver's way to announce one prefix.
type subject struct {
	name   string // of the method and the protocol
	prefix netip.Prefix
	driver func(nd *lab.AnycastNode) (routers.Router, error)
	rest   time.Duration // the least time between two changes, where lab.Quiet is not enough
	slow   bool          // each change takes long, so that fewer are measured

	instead *subject // what would be used in its place
}

const (
	// restBIRD: BIRD replaces an LSA 5 s after the one before at the earliest (MinLSInterval, RFC 2328
	// appendix B).
	restBIRD = 5*time.Second + 200*time.Millisecond
	// restOSPF6: ospf6d tells of an LSA's age up to a second too little (8.4.4), so that the driver holds a
	// change back until the one before is two seconds old.
	restOSPF6 = 2*time.Second + 200*time.Millisecond
)

// bgpSites have nothing to wait for between two changes.
func bgpSites() (all []site) {
	for _, r := range lab.FRRs {
		all = append(all, frrBGP(r))
	}
	for _, r := range lab.BIRDs {
		if r != lab.BIRDHost {
			all = append(all, birdSite(r, lab.Switch, true))
			continue
		}
		for _, w := range lab.Ways {
			all = append(all, birdSite(r, w, true))
		}
	}
	return append(all, vyosBGP())
}

// ospfSites have OSPF, which must be quiet before each change.
func ospfSites() (all []site) {
	for _, r := range lab.FRRs {
		all = append(all, frrOSPF(r))
	}
	for _, r := range lab.BIRDs {
		all = append(all, birdSite(r, lab.Switch, false))
	}
	return append(all, birdSite(lab.BIRDHost, lab.Direct, false), vyosOSPF())
}

func frrBGP(r lab.Release) site {
	return site{release: r,
		network: lab.AnycastOptions{BGP: true, Nodes: r, NoUnbound: true, NodeConfig: " no bgp network import-check\n"},
		subjects: []subject{
			byFRR("address, BGP", lab.Service, frr.Options{Protocol: frr.ProtocolBGP}),
			byFRR("address by FRR, BGP", lab.Service, frr.Options{Protocol: frr.ProtocolBGP, Owner: frr.OwnerFRR}),
			byFRR("network, BGP", lab.Service, frr.Options{Method: frr.MethodNetwork}),
			byFRR("static, BGP", lab.Service, frr.Options{Method: frr.MethodStatic, Protocol: frr.ProtocolBGP}),
		},
	}
}

// frrOSPF has OSPFv2 and OSPFv3. The core has no nexthop objects: the routes that share one share what the
// kernel last looked up, so that it may tell of the wrong one (Linux 6.18).
func frrOSPF(r lab.Release) site {
	six := byFRR("address, OSPFv3", lab.Service6, frr.Options{})
	six.rest = restOSPF6
	s := site{release: r,
		network: lab.AnycastOptions{IPv6: true, Nodes: r, NoUnbound: true, Daemons: []string{"staticd"},
			NodeOSPF: " redistribute static\n", CoreConfig: "exit\nno zebra nexthop kernel enable\n"},
		subjects: []subject{
			byFRR("address, OSPF", lab.Service, frr.Options{}),
			six,
			byFRR("address by FRR, OSPF", lab.Service, frr.Options{Owner: frr.OwnerFRR}),
			byFRR("static, OSPF", lab.Service, frr.Options{Method: frr.MethodStatic}),
		},
	}
	if r == lab.FRRHost {
		s.subjects = append(s.subjects, subject{name: "kernel, OSPF by what is on lo", prefix: lab.Service,
			driver: func(*lab.AnycastNode) (routers.Router, error) { return kernel.New("lo"), nil }})
	}
	return s
}

func byFRR(name string, p netip.Prefix, o frr.Options) subject {
	return subject{name: name, prefix: p, driver: func(nd *lab.AnycastNode) (routers.Router, error) {
		o.SocketDir = nd.FRR.SocketDir()
		return frr.New(o), nil
	}}
}

func birdSite(r lab.Release, way lab.Way, bgp bool) site {
	own := subject{name: way.String() + ", BGP", prefix: lab.Service, driver: func(nd *lab.AnycastNode) (routers.Router, error) { return byBIRD(nd, way) }}
	if !bgp {
		own.name, own.rest = way.String()+", OSPF", restBIRD
	}
	s := site{r, lab.AnycastOptions{BGP: bgp, Nodes: r, Way: way, NoUnbound: true}, []subject{own}}
	if bgp && way == lab.Protocol {
		s.subjects = append(s.subjects, subject{name: "program: birdc, BGP", prefix: lab.Service, driver: byProgram})
	}
	return s
}

func birdOptions(way lab.Way) (o bird.Options) {
	o.Method = bird.MethodInclude
	switch way {
	case lab.Direct:
		o.Method = bird.MethodAddress
	case lab.Protocol:
		o.Method, o.Symbol = bird.MethodProtocol, "anycast_{service}"
	case lab.Switch:
		o.Style, o.Degraded.Symbol = bird.StyleSwitch, "{SERVICE}_DEGRADED_OFF"
	case lab.Routes:
		o.Style = bird.StyleRoutes
	case lab.List:
		o.Style, o.Degraded.Symbol = bird.StyleList, "ANYCAST_DEGRADED"
	case lab.Function:
		o.Style, o.Symbol, o.Degraded.Symbol = bird.StyleFunction, "anycast_announced", "anycast_degraded"
	}
	return o
}

// byBIRD takes the lab's own file away, which is not the driver's to overwrite.
func byBIRD(nd *lab.AnycastNode, way lab.Way) (routers.Router, error) {
	o := birdOptions(way)
	o.Socket, o.Socket6, o.Include = nd.BIRD.Socket(), nd.BIRD.Path("none.ctl"), nd.BIRD.Path(lab.IncludeFile)
	if err := os.Remove(o.Include); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return bird.New(o), nil
}

// byProgram has a shell script of an operator's own.
func byProgram(nd *lab.AnycastNode) (routers.Router, error) {
	file := filepath.Join(nd.Dir(), "anycast")
	text := fmt.Sprintf(`#!/bin/sh
birdc() { %s "$@"; }
case $ANYCAST_ACTION in
up) birdc enable anycast_$ANYCAST_SERVICE ;;
down) birdc disable anycast_$ANYCAST_SERVICE ;;
read) case $(birdc "show route $ANYCAST_PREFIX export core4") in
	*anycast_$ANYCAST_SERVICE*) echo advertised ;;
	*"Network not "*) echo absent ;;
	*) exit 2 ;;
	esac ;;
esac
`, strings.Join(nd.BIRD.Client(), " "))
	command := []string{file}
	return program.New(program.Options{Up: command, Down: command, Read: command}), os.WriteFile(file, []byte(text), 0o755)
}

// named gives a release as people know it, such as "BIRD 2.0.12".
func named(ctx context.Context, r lab.Release) string {
	daemon := "FRR"
	if r.IsBIRD() {
		daemon = "BIRD"
	}
	version, err := r.Version(ctx)
	if err != nil {
		version = "(" + r.String() + ")"
	}
	return daemon + " " + version
}
