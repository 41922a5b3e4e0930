package frr

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"vouch/routers"
	"vouch/routers/frr/vty"
	"vouch/routers/rtnl"
)

// configDir is where FRR's own scripts have the configuration of the daemons with these sockets: each path
// space has a directory in both places.
func configDir(socketDir string) string {
	const run, etc = "/run/frr", "/etc/frr"
	if name, ok := strings.CutPrefix(filepath.Clean(socketDir), run+"/"); ok {
		return filepath.Join(etc, name)
	}
	return etc
}

// A reading is all that Examine looks at. A daemon that could not be asked has an error, and no text.
type reading struct {
	configs   map[string]string // by daemon, as it runs
	failed    map[string]error  // by daemon
	version   string            // of zebra, such as "8.4.4"
	zebra     string            // show zebra
	neighbors string            // show bgp neighbors json
	table     map[netip.Prefix]bgpEntry
	routes    map[netip.Prefix][]route // zebra's; nil when they were not asked for, or could not be read
	networkd  networkd
	addresses []rtnl.Address // of this node; nil when they could not be read
	saved     []savedConfig
}

// Examine says what in FRR would keep the prefixes from being announced or withdrawn, and what would
// announce them when FRR starts. It only reads, asks each daemon at most three questions, and zebra and
// bgpd one more for each prefix, and returns soon after ctx ends.
func (r *Router) Examine(ctx context.Context, ps []netip.Prefix) []routers.Finding {
	rd := r.survey(ctx, ps)
	return append(rd.running(r.options, ps), examineSaved(rd.saved, r.options, ps)...)
}

// running examines the daemons as they run.
func (rd reading) running(o Options, ps []netip.Prefix) []routers.Finding {
	found := rd.daemons(o.needs(ps))
	found = append(found, rd.objects()...)
	found = append(found, rd.outdone(o, ps)...)
	if o.Protocol == ProtocolBGP {
		return append(found, rd.bgp(o, ps)...)
	}
	return append(found, rd.ospf(o, ps)...)
}

// needs gives the daemons that have a part in announcing the prefixes.
func (o Options) needs(ps []netip.Prefix) []string {
	daemons := []string{"zebra"}
	switch {
	case o.Method == MethodStatic && o.redistributed() == "static":
		daemons = append(daemons, o.configurer("staticd"))
	case o.Method == MethodAddress && o.Owner == OwnerFRR && o.configurer("zebra") != "zebra":
		daemons = append(daemons, o.configurer("zebra"))
	}
	if o.Protocol == ProtocolBGP {
		return append(daemons, "bgpd")
	}
	if slices.ContainsFunc(ps, isIPv4) {
		daemons = append(daemons, "ospfd")
	}
	if slices.ContainsFunc(ps, isIPv6) {
		daemons = append(daemons, "ospf6d")
	}
	return daemons
}

// survey asks all daemons side by side.
func (r *Router) survey(ctx context.Context, ps []netip.Prefix) reading {
	daemons := r.options.needs(ps)
	replies, errs := make([][]vty.Reply, len(daemons)), make([]error, len(daemons))
	all := make([]func(), len(daemons))
	for i, d := range daemons {
		all[i] = func() { replies[i], errs[i] = ask(ctx, r.talk, d, r.options.questions(d, ps)...) }
	}
	rd := reading{configs: map[string]string{}, failed: map[string]error{}, saved: readSaved(r.options.ConfigDir, daemons)}
	rd.addresses, _ = rtnl.Addresses(ctx) // what depends on them is left out
	rd.networkd = r.networkd()
	abreast(all...)
	for i, d := range daemons {
		if errs[i] != nil {
			rd.failed[d] = errs[i]
			continue
		}
		rd.configs[d] = replies[i][0].Text
		switch d {
		case "zebra":
			rd.version, rd.zebra = parseVersion(replies[i][1].Text), replies[i][2].Text
			rd.routes = parseAll(replies[i][3:], ps, parseRoutes)
		case "bgpd":
			rd.neighbors = replies[i][1].Text
			rd.table = parseAll(replies[i][2:], ps, parseBGP)
		}
	}
	return rd
}

// questions are what Examine asks a daemon.
func (o Options) questions(daemon string, ps []netip.Prefix) []string {
	commands := []string{"show running-config"}
	switch daemon {
	case "zebra":
		commands = append(commands, "show version", "show zebra")
		if o.Method != MethodAddress {
			for _, p := range ps {
				commands = append(commands, showRoute(p))
			}
		}
	case "bgpd":
		commands = append(commands, showNeighbors)
		for _, p := range ps {
			commands = append(commands, showBGP(p))
		}
	}
	return commands
}

// parseAll reads the answers about the prefixes; nil: there are none, or one cannot be read.
func parseAll[T any](replies []vty.Reply, ps []netip.Prefix, parse func(string, netip.Prefix) (T, error)) map[netip.Prefix]T {
	if len(replies) != len(ps) {
		return nil
	}
	all := make(map[netip.Prefix]T, len(ps))
	for i, p := range ps {
		v, err := parse(replies[i].Text, p)
		if err != nil {
			return nil
		}
		all[p] = v
	}
	return all
}

// parseVersion reads the version of "FRRouting 8.4.4 (host) …", and is empty where there is none.
func parseVersion(text string) string {
	words := strings.Fields(text)
	if len(words) < 2 || words[0] != "FRRouting" {
		return ""
	}
	return words[1]
}

// release gives the version's first two numbers, 0 where it has none.
func release(version string) (major, minor int) {
	_, _ = fmt.Sscanf(version, "%d.%d", &major, &minor)
	return major, minor
}

func (rd reading) daemons(needed []string) []routers.Finding {
	var found []routers.Finding
	for _, d := range needed {
		if err := rd.failed[d]; err != nil {
			found = append(found, routers.Finding{Severity: routers.Failing, Subject: d, Text: err.Error()})
		}
	}
	if rd.version == "" {
		return found
	}
	f := routers.Finding{Subject: "frr " + rd.version, Text: strings.Join(needed, ", ") + " have a part in announcing"}
	if major, minor := release(rd.version); major < 8 || major == 8 && minor < 4 || major > 10 {
		f.Severity, f.Text = routers.Notice, f.Text+"; releases 8.4 and 10.3 are those that were tested"
	}
	return append(found, f)
}

// objects tells of kernel nexthop objects, and warns where something on the node deletes them. Whoever does
// (systemd-networkd, `ip nexthop flush`) takes their IPv4 routes out of the kernel, and zebra was seen to put
// back the object alone and to say that the routes are installed (8.4.4, 10.3).
func (rd reading) objects() []routers.Finding {
	if rd.failed["zebra"] != nil || !strings.Contains(rd.zebra, "Kernel NHG") {
		return nil
	}
	f := routers.Finding{Subject: "zebra", Text: "installs its routes without nexthop objects, so that nobody who deletes these takes them out of the kernel"}
	off := strings.Contains(rd.configs["zebra"], "\nno zebra nexthop kernel enable")
	if off || !reportsObjects(rd.zebra) {
		return []routers.Finding{f}
	}
	f.Severity = routers.Notice
	f.Text = "installs its routes with kernel nexthop objects: when somebody deletes these (`ip nexthop flush`), the kernel loses the routes and zebra does not put them back; " + rd.networkd.text()
	f.WayOut = "put `no zebra nexthop kernel enable` into frr.conf and restart FRR; have a check of type route"
	if rd.networkd.deletes() {
		f.Severity, f.WayOut = routers.Warning, f.WayOut+rd.networkd.wayOut()
	}
	if major, minor := release(rd.version); major > 10 || major == 10 && minor > 3 {
		f.Severity, f.Text = routers.Notice, f.Text+" (seen up to 10.3)"
	}
	return []routers.Finding{f}
}

// reportsObjects reads what show zebra says of the kernel's objects.
func reportsObjects(text string) bool {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "Kernel NHG"); ok {
			return strings.TrimSpace(rest) == "Available"
		}
	}
	return false
}
