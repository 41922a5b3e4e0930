// Package config reads, checks and explains vouch.toml.
package config

import (
	"net/netip"
	"time"

	"vouch/agent/internal/health"
	"vouch/checks"
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

// Router is the table [router].
type Router struct {
	Daemon         string        `toml:"daemon"`          // frr, kernel
	Method         string        `toml:"method"`          // frr: address, network, static; kernel: address; default address
	Protocol       string        `toml:"protocol"`        // frr: ospf, bgp: whose table must hold the prefix; default ospf with address, else bgp
	Interface      string        `toml:"interface"`       // method address: the interface; default lo
	Via            string        `toml:"via"`             // frr: auto, socket, command; default auto
	SocketDir      string        `toml:"socket_dir"`      // frr: default /run/frr
	Vtysh          string        `toml:"vtysh"`           // frr, but not via socket: default vtysh, found in PATH
	Unpaced        bool          `toml:"unpaced"`         // ospf: changes need not be paced, the neighbours take any number at once
	MinPeers       int           `toml:"min_peers"`       // bgp: established peers that must be sent the prefix; default 1
	Timeout        time.Duration `toml:"timeout"`         // of one question to the daemon; default 1s
	Deadline       time.Duration `toml:"deadline"`        // from asking to reading it as asked; default 3s
	VerifyInterval time.Duration `toml:"verify_interval"` // between readings in steady state; default 5s
	RetryMin       time.Duration `toml:"retry_min"`       // first wait after a change that did not take; default 200ms
	RetryMax       time.Duration `toml:"retry_max"`       // the cap of the doubling; default 10s
}

// Service is a table [service.NAME].
type Service struct {
	Name     string
	Prefixes []netip.Prefix // canonical, sorted
	Health   health.Settings
	Require  health.Require
	Groups   map[string]health.Require // by name: [service.NAME.group.NAME]; nil: none
	OnStop   string                    // keep, withdraw; default keep
	Checks   []Check                   // by name
}

// Check is a table [service.NAME.check.NAME].
type Check struct {
	Name     string
	Type     string
	Interval time.Duration // at least the service's; default: the service's
	Timeout  time.Duration // default: 1s, or Interval when that is less
	OnFail   string        // withdraw, warn; default withdraw
	Group    string        // the group it belongs to, or empty
	Spec     checks.Spec
}

// Counts says whether the check has a say in the verdict; the others only warn.
func (c Check) Counts() bool { return c.OnFail == onFailWithdraw }

// The words that are looked at in more than one place.
const (
	daemonFRR      = "frr"
	daemonKernel   = "kernel"
	methodAddress  = "address"
	methodNetwork  = "network"
	methodStatic   = "static"
	protocolOSPF   = "ospf"
	protocolBGP    = "bgp"
	viaSocket      = "socket"
	onFailWithdraw = "withdraw"
)

// serviceTable is what a table [service.NAME] holds beside its groups and checks, as written.
type serviceTable struct {
	Prefixes     []string       `toml:"prefixes"`
	Interval     time.Duration  `toml:"interval"`
	Fast         time.Duration  `toml:"fast"`
	Rise         int            `toml:"rise"`
	Fall         int            `toml:"fall"`
	HoldDown     time.Duration  `toml:"hold_down"`
	HoldDownMax  time.Duration  `toml:"hold_down_max"`
	HoldDownCalm time.Duration  `toml:"hold_down_calm"`
	UnknownAfter time.Duration  `toml:"unknown_after"`
	OnUnknown    string         `toml:"on_unknown"`
	Require      health.Require `toml:"require"`
	OnStop       string         `toml:"on_stop"`
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
