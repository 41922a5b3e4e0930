package lab

import (
	"fmt"
	"maps"
	"net/netip"
	"strings"
)

// A Way is how the BIRD of a node comes to announce the prefixes of its services.
type Way uint8

// The ways. The routes of the last five are static ones with the name of their protocol; with OSPF they
// become external. What is not the service's own is rejected by the filters to the core, core4_out and
// core6_out. "degraded" is twice the AS longer in BGP, and dearer in OSPF.
const (
	// Direct: an address of 10.53.53.0/24 or 2001:db8:53::/64 on lo is announced, with OSPF as a stub.
	Direct Way = iota
	// Protocol: protocols anycast_SERVICE (IPv4) and anycast6_SERVICE, and the same with _degraded behind.
	// All are disabled at first. When both of a family are up, BIRD takes either.
	Protocol
	// Switch: the same protocols, each disabled by a number from the included file, which both families
	// have in common: SERVICE_OFF and SERVICE_DEGRADED_OFF.
	Switch
	// Routes: the included file has the static protocols, by the names vouch4 and vouch6.
	Routes
	// List: the static protocols anycast4 and anycast6 are always up, and the filter asks sets from the
	// included file: ANYCAST_PREFIXES, ANYCAST_DEGRADED, and with 6 behind for IPv6.
	List
	// Function: the same, and the filter asks functions from the included file: anycast_announced() and
	// anycast_degraded().
	Function
)

var wayNames = [...]string{"direct", "protocol", "switch", "routes", "list", "function"}

// String gives the way's name.
func (w Way) String() string { return wayNames[w] }

// Ways are all ways.
var Ways = []Way{Direct, Protocol, Switch, Routes, List, Function}

// The files that the configuration of a node's BIRD includes with the last four ways, in its directory.
const (
	IncludeFile  = "vouch.conf"
	IncludeFile6 = "vouch6.conf" // that of BIRD 1's bird6
)

// A NamedService is a name with its prefixes, for the ways that name protocols after it.
type NamedService struct {
	Name     string // of letters, digits and "_"
	Prefixes []netip.Prefix
}

// A birdConf makes the configuration of one BIRD daemon.
type birdConf struct {
	strings.Builder
	split bool // the syntax of BIRD 1, which has no channels
}

func (c *birdConf) f(format string, args ...any) { fmt.Fprintf(c, format, args...) }

// protocol begins a protocol with its channel; the caller closes it. Static ones need no import or export.
func (c *birdConf) protocol(kind, name string, v int, imports, exports string) {
	c.f("protocol %s %s {\n", kind, name)
	switch {
	case c.split && kind == "static":
	case c.split:
		c.f("\timport %s;\n\texport %s;\n", imports, exports)
	case kind == "static":
		c.f("\tipv%d;\n", v)
	default:
		c.f("\tipv%d { import %s; export %s; };\n", v, imports, exports)
	}
}

// learned are the sources of routes that came from a neighbour.
const learned = "source ~ [ RTS_BGP, RTS_OSPF, RTS_OSPF_IA, RTS_OSPF_EXT1, RTS_OSPF_EXT2 ]"

// base is what every daemon has: what is learned goes to the kernel, over all equal paths.
func (c *birdConf) base(router string, families []int) {
	c.f("router id %s;\nprotocol device { }\n", router)
	for _, v := range families {
		c.protocol("kernel", fmt.Sprintf("kernel%d", v), v, "none", "where "+learned)
		c.f("\tmerge paths on;\n}\n")
	}
}

// static adds a protocol that holds routes to nowhere: only neighbours are to know them. disabled is empty
// or says when it is.
func (c *birdConf) static(name string, v int, disabled string, ps []netip.Prefix) {
	c.protocol("static", name, v, "", "")
	c.f("%s", disabled)
	for _, p := range ps {
		if family(p) == v {
			c.f("\troute %s blackhole;\n", p)
		}
	}
	c.f("}\n")
}

// session adds a BGP session.
func (c *birdConf) session(name string, v int, local netip.Addr, as int, neighbor netip.Addr, theirs int, exports string) {
	c.protocol("bgp", name, v, "all", exports)
	c.f("\tlocal %s as %d;\n\tneighbor %s as %d;\n", local, as, neighbor, theirs)
	c.f("\thold time 9;\n\tmed metric on;\n\tconnect delay time 1;\n\tconnect retry time 1;\n\terror wait time 1, 2;\n}\n")
}

// ospf adds an OSPF protocol with one area. Interfaces that lead to neighbours have the lab's timers.
func (c *birdConf) ospf(name string, v int, exports string, neighbors, stubs []string) {
	kind := map[int]string{4: "ospf v2", 6: "ospf v3"}[v]
	if c.split {
		kind = "ospf"
	}
	c.protocol(kind, name, v, "all", exports)
	c.f("\tecmp yes;\n\tarea 0 {\n")
	for _, i := range neighbors {
		c.f("\t\tinterface \"%s\" { type ptp; hello 1; dead 4; };\n", i)
	}
	for _, i := range stubs {
		c.f("\t\tinterface \"%s\" { stub; };\n", i)
	}
	c.f("\t};\n}\n")
}

func family(p netip.Prefix) int {
	if p.Addr().Is6() {
		return 6
	}
	return 4
}

// protocolName is what the ways Protocol and Switch call a service's protocol of a family.
func protocolName(service string, v int) string {
	if v == 6 {
		return "anycast6_" + service
	}
	return "anycast_" + service
}

// nodeBIRD is the configuration of the daemon with these families on the node number i.
func nodeBIRD(o AnycastOptions, i int, families []int) string {
	c := &birdConf{split: o.Nodes.Split()}
	if o.Way >= Switch {
		file := IncludeFile
		if c.split && families[0] == 6 {
			file = IncludeFile6
		}
		c.f("include \"%s\";\n", file)
	}
	c.base(addr("10.0.%d.2", i).String(), families)
	for _, v := range families {
		c.origin(o, v)
		c.filter(o, i, v)
		exports := fmt.Sprintf("filter core%d_out", v)
		if o.BGP {
			c.session(fmt.Sprintf("core%d", v), v, nodeAddr(i, v, 2), nodeAS+i, nodeAddr(i, v, 1), coreAS, exports)
			continue
		}
		var stubs []string
		if o.Way == Direct {
			stubs = []string{"lo"}
		}
		c.ospf(fmt.Sprintf("core%d", v), v, exports, []string{"eth0"}, stubs)
	}
	return c.String() + o.NodeBIRD
}

// origin adds the protocols that have the node's own routes.
func (c *birdConf) origin(o AnycastOptions, v int) {
	switch o.Way {
	case Direct:
		if o.BGP {
			c.f("protocol direct lo%d {\n\tinterface \"lo\";\n", v)
			if !c.split {
				c.f("\tipv%d;\n", v)
			}
			c.f("}\n")
		}
	case Protocol, Switch:
		for _, s := range o.Services {
			for _, kind := range []string{"", "_degraded"} {
				disabled := "\tdisabled;\n"
				if o.Way == Switch {
					disabled = fmt.Sprintf("\tdisabled %s_OFF;\n", strings.ToUpper(s.Name+kind))
				}
				c.static(protocolName(s.Name, v)+kind, v, disabled, s.Prefixes)
			}
		}
	case List, Function:
		var all []netip.Prefix
		for _, s := range o.Services {
			all = append(all, s.Prefixes...)
		}
		c.static(fmt.Sprintf("anycast%d", v), v, "", all)
	}
}

// filter adds the filter to the core.
func (c *birdConf) filter(o AnycastOptions, i, v int) {
	worse := "{ ospf_metric2 = 20000; accept; }"
	better := "{ ospf_metric2 = 100; accept; }"
	if o.BGP {
		worse = fmt.Sprintf("{ bgp_path.prepend(%[1]d); bgp_path.prepend(%[1]d); accept; }", nodeAS+i)
		better = "accept;"
	}
	c.f("filter core%d_out {\n", v)
	switch six := strings.TrimPrefix(fmt.Sprint(v), "4"); o.Way {
	case Direct:
		if o.BGP {
			c.f("\tif proto = \"lo%d\" && net ~ [ %s+ ] then accept;\n", v, anycastNet[v])
		}
	case Protocol, Switch:
		c.f("\tif proto ~ \"anycast*_degraded\" then %s\n\tif proto ~ \"anycast*\" then %s\n", worse, better)
	case Routes: // the file's routes have their attributes
		c.f("\tif proto = \"vouch%d\" then accept;\n", v)
	case List:
		c.f("\tif proto = \"anycast%d\" && net ~ ANYCAST_DEGRADED%s then %s\n", v, six, worse)
		c.f("\tif proto = \"anycast%d\" && net ~ ANYCAST_PREFIXES%s then %s\n", v, six, better)
	case Function:
		c.f("\tif proto = \"anycast%d\" && anycast_degraded() then %s\n", v, worse)
		c.f("\tif proto = \"anycast%d\" && anycast_announced() then %s\n", v, better)
	}
	c.f("\treject;\n}\n")
}

// coreBIRD is the configuration of the core's daemon with these families.
func coreBIRD(o AnycastOptions, families []int) string {
	c := &birdConf{split: o.Core.Split()}
	c.base("10.0.0.1", families)
	for _, v := range families {
		c.static(fmt.Sprintf("default%d", v), v, "", []netip.Prefix{defaults[v]})
		if !o.BGP {
			c.f("filter default%[1]d_out {\n\tif proto = \"default%[1]d\" then { ospf_metric2 = 10; accept; }\n\treject;\n}\n", v)
			c.ospf(fmt.Sprintf("nodes%d", v), v, fmt.Sprintf("filter default%d_out", v), []string{"eth1", "eth2"}, []string{"eth0"})
			continue
		}
		for i := 1; i <= 2; i++ {
			c.session(fmt.Sprintf("apu%02d_%d", i, v), v, nodeAddr(i, v, 1), coreAS, nodeAddr(i, v, 2), nodeAS+i,
				fmt.Sprintf("where proto = \"default%d\" || source = RTS_BGP", v))
		}
	}
	return c.String() + o.CoreConfig
}

// files are those which the nodes' configuration includes.
func (o AnycastOptions) files() map[string]string {
	files := map[string]string{}
	if o.Way >= Switch {
		files[IncludeFile] = o.nothing(4)
		if o.Nodes.Split() {
			files[IncludeFile6] = o.nothing(6)
		}
	}
	maps.Copy(files, o.Files)
	return files
}

// nothing is an included file by which nothing is announced: with BIRD 1 that of one family.
func (o AnycastOptions) nothing(v int) string {
	c := &birdConf{split: o.Nodes.Split()}
	switch o.Way {
	case Switch:
		for _, s := range o.Services {
			c.f("define %[1]s_OFF = 1;\ndefine %[1]s_DEGRADED_OFF = 1;\n", strings.ToUpper(s.Name))
		}
	case Routes:
		c.static(fmt.Sprintf("vouch%d", v), v, "", nil)
		if !c.split {
			c.static("vouch6", 6, "", nil)
		}
	case List:
		for i, name := range []string{"ANYCAST_PREFIXES", "ANYCAST_DEGRADED", "ANYCAST_PREFIXES6", "ANYCAST_DEGRADED6"} {
			none, of := "[ ]", defaults[v].Addr()
			if i >= 2 {
				of = defaults[6].Addr()
			}
			if !o.Nodes.EmptySet() {
				none = fmt.Sprintf("[ %s/%d ]", of, of.BitLen())
			}
			if !c.split || of.Is4() == (v == 4) { // BIRD 1 knows one family
				c.f("define %s = %s;\n", name, none)
			}
		}
	case Function:
		c.f("function anycast_announced() { return false; }\nfunction anycast_degraded() { return false; }\n")
	}
	return c.String()
}
