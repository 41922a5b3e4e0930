// Package kinds is the table of the kinds of checks there are.
package kinds

import (
	"maps"
	"slices"

	"vouch/checks"
	"vouch/checks/address"
	"vouch/checks/dns"
	"vouch/checks/file"
	"vouch/checks/http"
	"vouch/checks/icmp"
	"vouch/checks/mtu"
	"vouch/checks/ntp"
	"vouch/checks/program"
	"vouch/checks/route"
	"vouch/checks/tcp"
	"vouch/checks/tls"
	"vouch/checks/udp"
	"vouch/checks/unit"
)

var kinds = map[string]func() checks.Spec{
	"address": func() checks.Spec { return new(address.Spec) },
	"dns":     func() checks.Spec { return new(dns.Spec) },
	"exec":    func() checks.Spec { return new(program.Spec) },
	"file":    func() checks.Spec { return new(file.Spec) },
	"http":    func() checks.Spec { return new(http.Spec) },
	"icmp":    func() checks.Spec { return new(icmp.Spec) },
	"mtu":     func() checks.Spec { return new(mtu.Spec) },
	"ntp":     func() checks.Spec { return new(ntp.Spec) },
	"route":   func() checks.Spec { return new(route.Spec) },
	"systemd": func() checks.Spec { return new(unit.Spec) },
	"tcp":     func() checks.Spec { return new(tcp.Spec) },
	"tls":     func() checks.Spec { return new(tls.Spec) },
	"udp":     func() checks.Spec { return new(udp.Spec) },
}

// New gives an empty Spec of the kind that a check's type names, and whether there is one.
func New(kind string) (checks.Spec, bool) {
	f, ok := kinds[kind]
	if !ok {
		return nil, false
	}
	return f(), true
}

// Names gives the types there are, sorted.
func Names() []string { return slices.Sorted(maps.Keys(kinds)) }
