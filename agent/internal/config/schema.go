// Package config reads, checks and explains vouch.toml.
package config

import (
	"net/netip"
	"time"

	"vouch/agent/internal/health"
	"vouch/checks"
	"vouch/routers"
)

// Config is a whole valid configuration with all defaults filled in. A key that has no effect
// beside the others is refused when it is written, and is zero here.
type Config struct {
	File     string // the path it was read from
	Agent    Agent
	Control  Control
	Router   Router
	Services []Service // by name
}

// Agent is the table [agent].
type Agent struct {
	Node      string `toml:"node"`       // default: the host's name
	StateFile string `toml:"state_file"` // default /run/vouch/state.json
	LogLevel  string `toml:"log_level"`  // debug, info, warn, error; default info
}

// Control is the table [control].
type Control struct {
	Socket     string `toml:"socket"`      // default /run/vouch/control.sock
	Group      string `toml:"group"`       // group that may connect; default: the agent's own
	AdminGroup string `toml:"admin_group"` // group whose members may drain and resume, beside root and the agent's own user
}

// Router is the table [router]. With daemon auto a key is there when it has an effect for one of the
// daemons that may be found. What is left empty without being without effect, the driver settles.
type Router struct {
	Daemon         string        `toml:"daemon"`          // auto, frr, bird, vyos, kernel, program; default auto
	Method         string        `toml:"method"`          // address; frr: network, static; bird: protocol, include; vyos: kernel, static; default address, vyos: kernel
	Protocol       string        `toml:"protocol"`        // frr, vyos: ospf, bgp: whose table must hold the prefix; default ospf with address, else bgp; auto: empty
	Interface      string        `toml:"interface"`       // method address: the interface; default lo
	Owner          string        `toml:"owner"`           // frr, method address: kernel, frr: who holds the address; default kernel
	Via            string        `toml:"via"`             // frr, bird: auto, socket, command; default auto; vyos, static: config, vbash; default config
	SocketDir      string        `toml:"socket_dir"`      // frr, vyos: default /run/frr
	Vtysh          string        `toml:"vtysh"`           // frr, but not via socket: default vtysh, found in PATH
	Unpaced        bool          `toml:"unpaced"`         // frr, ospf: changes need not be paced, the neighbours take any number at once
	Socket         string        `toml:"socket"`          // bird: the control socket; empty: the first one that is there
	Socket6        string        `toml:"socket6"`         // bird 1.6: that of bird6; empty: the first one that is there
	Birdc          string        `toml:"birdc"`           // bird, but not via socket: default birdc, found in PATH
	Birdc6         string        `toml:"birdc6"`          // bird 1.6, but not via socket: default birdc6, found in PATH
	Style          string        `toml:"style"`           // method include: switch, routes, list, function; default switch
	Include        string        `toml:"include"`         // method include: the file; required
	Include6       string        `toml:"include6"`        // method include, bird 1.6: the file for bird6, or empty
	Symbol         string        `toml:"symbol"`          // methods protocol, include: a template with {service}, {SERVICE}; default: see bird.Options.Symbols
	Symbol6        string        `toml:"symbol6"`         // the same for IPv6; default: as Symbol, with a 6 behind it where one thing cannot be for both families
	Peers          []string      `toml:"peers"`           // bird: the protocols that must be given the prefix; empty: all of BGP and OSPF
	MinPeers       int           `toml:"min_peers"`       // bird, and frr and vyos with bgp: peers that must be sent the prefix; default 1
	Distance       int           `toml:"distance"`        // vyos, static: of the route; 0: VyOS's own default
	Save           bool          `toml:"save"`            // vyos, static: save the whole configuration after each commit
	Up             Command       `toml:"up"`              // program: announces; required
	Down           Command       `toml:"down"`            // program: withdraws; required
	Degrade        Command       `toml:"degrade"`         // program: announces in the worse way, or empty
	Read           Command       `toml:"read"`            // program: tells how far a prefix has come, or empty
	Timeout        time.Duration `toml:"timeout"`         // of one question to the daemon; default 1s; program: of one command, 10s
	Deadline       time.Duration `toml:"deadline"`        // from asking to reading it as asked; default 3s
	VerifyInterval time.Duration `toml:"verify_interval"` // between readings in steady state; default 5s
	RetryMin       time.Duration `toml:"retry_min"`       // first wait after a change that did not take; default 200ms
	RetryMax       time.Duration `toml:"retry_max"`       // the cap of the doubling; default 10s
	Degraded       Degraded
}

// Degraded is the table [router.degraded]: how a degraded prefix is announced, by method. The zero value
// of a field leaves that alone.
type Degraded struct {
	Cost      int      `toml:"cost"`      // frr, address with ospf: of the interface; 1 to 65535
	RouteMap  string   `toml:"route_map"` // frr, network
	Tag       uint32   `toml:"tag"`       // frr and vyos, static
	Metric    uint32   `toml:"metric"`    // vyos, kernel, bgp
	Symbol    string   `toml:"symbol"`    // bird, protocol and the styles switch, list, function: a template, as Router.Symbol
	Symbol6   string   `toml:"symbol6"`   // the same for IPv6; default: of Symbol, as Router.Symbol6
	Community []string `toml:"community"` // bird, style routes: "65001:666", or large (RFC 8092) "65001:0:666"
	MED       uint32   `toml:"med"`       // bird, style routes
	Prepend   []uint32 `toml:"prepend"`   // bird, style routes: AS numbers put before the path
	Metric2   uint32   `toml:"metric2"`   // bird, style routes: ospf_metric2
}

// A Command is a program and its arguments; the first is a name found in PATH, or an absolute path.
type Command []string

// Service is a table [service.NAME].
type Service struct {
	Name     string
	Prefixes []netip.Prefix // canonical, sorted
	Health   health.Settings
	Require  health.Require
	Groups   map[string]health.Require // by name: [service.NAME.group.NAME]; nil: none
	OnStop   string                    // keep, withdraw; default keep
	Symbol   string                    // what its IPv4 prefixes go by in BIRD's configuration; empty: as Router.Symbol makes it
	Symbol6  string                    // the same for IPv6
	Checks   []Check                   // by name
}

// Check is a table [service.NAME.check.NAME].
type Check struct {
	Name     string
	Type     string
	Interval time.Duration // at least the service's; default: the service's
	Timeout  time.Duration // default: 1s, or Interval when that is less
	OnFail   string        // withdraw, degrade, warn; default withdraw
	Group    string        // the group it belongs to, or empty
	Spec     checks.Spec
}

// Counts says whether the check has a say in whether the service is up or down.
func (c Check) Counts() bool { return c.OnFail == onFailWithdraw }

// Degrades says whether the check has a say in whether the service is degraded. Checks with neither say
// only warn.
func (c Check) Degrades() bool { return c.OnFail == onFailDegrade }

// Labels tells the drivers what the operator calls each prefix.
func (c *Config) Labels() map[netip.Prefix]routers.Label {
	labels := map[netip.Prefix]routers.Label{}
	for _, s := range c.Services {
		for _, p := range s.Prefixes {
			labels[p] = routers.Label{Service: s.Name, Symbol: byFamily(p, s.Symbol, s.Symbol6)}
		}
	}
	return labels
}

func byFamily[T any](p netip.Prefix, v4, v6 T) T {
	if p.Addr().Is4() {
		return v4
	}
	return v6
}

// The words that are looked at in more than one place.
const (
	daemonAuto     = "auto"
	daemonFRR      = "frr"
	daemonBIRD     = "bird"
	daemonVyOS     = "vyos"
	daemonKernel   = "kernel"
	daemonProgram  = "program"
	methodAddress  = "address"
	methodNetwork  = "network"
	methodStatic   = "static"
	methodProtocol = "protocol"
	methodInclude  = "include"
	methodKernel   = "kernel"
	protocolOSPF   = "ospf"
	protocolBGP    = "bgp"
	viaSocket      = "socket"
	viaConfig      = "config"
	styleSwitch    = "switch"
	styleRoutes    = "routes"
	styleList      = "list"
	styleFunction  = "function"
	onFailWithdraw = "withdraw"
	onFailDegrade  = "degrade"
)

// serviceTable is what a table [service.NAME] holds beside its groups and checks, as written.
type serviceTable struct {
	Prefixes     []string       `toml:"prefixes"`
	Interval     time.Duration  `toml:"interval"`
	Fast         time.Duration  `toml:"fast"`
	Rise         int            `toml:"rise"`
	Fall         int            `toml:"fall"`
	HoldDown     time.Duration  `toml:"hold_down" empty:"ok"` // 0: off
	HoldDownMax  time.Duration  `toml:"hold_down_max"`
	HoldDownCalm time.Duration  `toml:"hold_down_calm"`
	UnknownAfter time.Duration  `toml:"unknown_after" empty:"ok"` // 0: never
	OnUnknown    string         `toml:"on_unknown"`
	Require      health.Require `toml:"require"`
	OnStop       string         `toml:"on_stop"`
	Symbol       string         `toml:"symbol"`
	Symbol6      string         `toml:"symbol6"`
}

// groupTable is a table [service.NAME.group.NAME], as written.
type groupTable struct {
	Require health.Require `toml:"require"`
}

// checkTable is what a table [service.NAME.check.NAME] of any kind holds, as written.
type checkTable struct {
	Type     string        `toml:"type"`
	Interval time.Duration `toml:"interval"`
	Timeout  time.Duration `toml:"timeout"`
	OnFail   string        `toml:"on_fail"`
	Group    string        `toml:"group"`
}
