// Package bird drives BIRD 1.6, 2 and 3 over their control sockets: it has a prefix announced, or not,
// and reads what each peer protocol is given to tell how far the prefix has come.
//
// A method is the way to announce:
//
//   - address: the host prefix is put on an interface by netlink, and BIRD's direct protocol or an OSPF
//     stub interface takes it from there.
//   - protocol: a protocol of the operator's is enabled and disabled. That is runtime state: anybody's
//     configure undoes it.
//   - include: a file which the operator's configuration includes is written, and BIRD reconfigured.
package bird

import (
	"cmp"
	"time"
)

// The words of Options.
const (
	MethodAddress  = "address"
	MethodProtocol = "protocol"
	MethodInclude  = "include"

	// StyleSwitch: a number for each service, 1 while it is withdrawn: `define RESOLVER_OFF = 1;`, used as
	// `disabled RESOLVER_OFF;` in the protocol that holds the routes.
	StyleSwitch = "switch"
	// StyleRoutes: static protocols with the routes of all services, one for each family.
	StyleRoutes = "routes"
	// StyleList: a set of prefixes for the operator's filter: `define ANYCAST_PREFIXES = [ … ];`.
	StyleList = "list"
	// StyleFunction: a function for the operator's filter, true for the prefixes that are to be announced.
	StyleFunction = "function"

	ViaAuto    = "auto"
	ViaSocket  = "socket"
	ViaCommand = "command"
)

// Options say how to drive BIRD. A field left zero has the default; a word that is none of its constants
// counts as the default too, so whoever loads the configuration refuses it.
type Options struct {
	Method    string // default address
	Interface string // method address; default lo
	Via       string // default auto: the socket; where it is missing or denied, birdc
	Socket    string // default: the first of Sockets that is there
	Socket6   string // BIRD 1.6: that of bird6; default: the first of Sockets6 that is there
	Birdc     string // the program; default birdc, looked up in PATH
	Birdc6    string // BIRD 1.6; default birdc6

	Style   string // method include; default switch
	Include string // method include: the file
	// Include6 is the second file with BIRD 1.6, whose bird6 has a configuration of its own. With one
	// BIRD for both families it is not used.
	Include6 string
	// Symbol is what a prefix goes by in BIRD's configuration where its label has no symbol of its own:
	// {service} and {SERVICE} stand for the service's name, with "_" for what no symbol can hold. It is
	// the protocol with method protocol, and by style the number, the static protocol, the set or the
	// function. Default by method and style, see Symbols. Symbol6 is the same for IPv6; default: as Symbol,
	// with a 6 behind it where one thing cannot be for both families.
	Symbol  string
	Symbol6 string

	Peers    []string      // the protocols that must be given the prefix; default: every BGP and OSPF protocol that is there
	MinPeers int           // how many of them must have it for "advertised"; default 1
	Timeout  time.Duration // of one question to BIRD; default 1s
	Degraded Degraded
}

// Degraded is how a degraded prefix is announced. Method address has no such way.
type Degraded struct {
	Symbol    string   // method protocol, and the styles switch (0 while it is degraded, else 1), list and function: a second one of the kind
	Symbol6   string   //
	Community []string // style routes: "65001:666", or large "65001:0:666"; added
	MED       uint32   // style routes; 0: left alone
	Prepend   []uint32 // style routes: AS numbers put before the path
	Metric2   uint32   // style routes: ospf_metric2; 0: left alone
}

// Sockets and Sockets6 are where BIRD's packages put their control sockets.
var (
	Sockets  = []string{"/run/bird/bird.ctl", "/run/bird.ctl", "/usr/local/var/run/bird.ctl"}
	Sockets6 = []string{"/run/bird/bird6.ctl", "/run/bird6.ctl", "/usr/local/var/run/bird6.ctl"}
)

// withDefaults fills in what was left out.
func (o Options) withDefaults() Options {
	o.Method = cmp.Or(o.Method, MethodAddress)
	o.Interface = cmp.Or(o.Interface, "lo")
	o.Birdc, o.Birdc6 = cmp.Or(o.Birdc, "birdc"), cmp.Or(o.Birdc6, "birdc6")
	o.Style = cmp.Or(o.Style, StyleSwitch)
	o.MinPeers = max(o.MinPeers, 1)
	o.Timeout = cmp.Or(o.Timeout, time.Second)
	o.Symbol, o.Symbol6 = o.Symbols()
	o.Degraded.Symbol6 = cmp.Or(o.Degraded.Symbol6, o.Sixth(o.Degraded.Symbol))
	return o
}
