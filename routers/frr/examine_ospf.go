package frr

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"vouch/routers"
)

// An ospfConfig is what concerns the announcing in the running configuration of ospfd or ospf6d.
type ospfConfig struct {
	router       bool           // there is an instance
	area         bool           // the interface is in an area by its own block, or by ospf6d's older statement
	networks     []netip.Prefix // network statements (ospfd)
	redistribute redistribution
	lists        map[string]string // the access-lists of `distribute-list NAME out SOURCE`, by source (ospfd)
}

func parseOSPFConfig(text, iface string) ospfConfig {
	c := ospfConfig{redistribute: redistribution{}, lists: map[string]string{}}
	blocks(text, ofInterface(iface), func(words []string) {
		c.area = c.area || len(words) >= 4 && words[2] == "area"
	})
	blocks(text, func(words []string) bool {
		head := len(words) == 2 && words[0] == "router" && (words[1] == "ospf" || words[1] == "ospf6")
		c.router = c.router || head
		return head
	}, func(words []string) {
		switch {
		case words[0] == "redistribute" && len(words) >= 2:
			c.redistribute.add(words)
		case words[0] == "distribute-list" && len(words) == 4:
			c.lists[words[3]] = words[1]
		case words[0] == "network" && len(words) >= 2:
			if p, err := netip.ParsePrefix(words[1]); err == nil {
				c.networks = append(c.networks, p.Masked())
			}
		case words[0] == "interface" && len(words) >= 3 && words[1] == iface && words[2] == "area":
			c.area = true
		}
	})
	return c
}

// covers tells whether an address on the interface is announced, as far as the configuration says so.
func (c ospfConfig) covers(p netip.Prefix) bool {
	return c.area || slices.ContainsFunc(c.networks, func(n netip.Prefix) bool { return n.Contains(p.Addr()) })
}

// ospf examines the daemons of the families that there are prefixes of.
func (rd reading) ospf(o Options, ps []netip.Prefix) []routers.Finding {
	var found []routers.Finding
	for _, d := range []string{"ospfd", "ospf6d"} {
		mine := slices.DeleteFunc(slices.Clone(ps), func(p netip.Prefix) bool { return isIPv4(p) != (d == "ospfd") })
		text, ok := rd.configs[d]
		if !ok || len(mine) == 0 {
			continue
		}
		c := parseOSPFConfig(text, o.Interface)
		switch {
		case !c.router:
			found = append(found, routers.Finding{Severity: routers.Failing, Subject: d, Text: "it runs, but ospf is not configured", WayOut: "configure `router " + strings.TrimSuffix(d, "d") + "`"})
		case o.Method == MethodStatic:
			f := parseFilters(text)
			found = append(found, c.listed(o.redistributes(d, c.redistribute, f, routers.Warning, mine), o.redistributed(), f, mine))
		default:
			found = append(found, c.addresses(d, o.Interface, mine)...)
			found = append(found, rd.exposed(c, d, o.Interface, mine)...)
			found = append(found, examineCosts(parseCosts(text, o.Interface), d, o)...)
		}
	}
	return found
}

// listed makes of what was found of a redistribution what it comes to with the distribute-list behind it. One that does
// not exist lets all through, and one that was only remarked on now the one and now the other (8.4.4, 10.3).
func (c ospfConfig) listed(found routers.Finding, source string, f filters, ps []netip.Prefix) routers.Finding {
	name, routeMap := c.lists[source], c.redistribute[source]
	rules, there := f.accessLists["ip "+name]
	if !there || found.Severity == routers.Failing {
		return found
	}
	behind := sifted(routers.Finding{Subject: found.Subject, Text: fmt.Sprintf("redistributes %s routes through distribute-list %s", source, name),
		WayOut: fmt.Sprintf("have access-list %s permit it, or take `distribute-list %[1]s out %s` away", name, source)}, ps,
		func(p netip.Prefix) (verdict, string) {
			if len(rules) == 0 {
				return untold, ""
			}
			return judge(rules, p), ""
		})
	everything := source == SourceKernel && routeMap == "" || routeMap != "" && found.Severity == routers.Warning
	if behind.Severity > found.Severity || everything { // not any more
		return behind
	}
	return found
}

// addresses says which prefixes no statement covers.
func (c ospfConfig) addresses(daemon, iface string, ps []netip.Prefix) []routers.Finding {
	var bare []string
	for _, p := range ps {
		if !c.covers(p) {
			bare = append(bare, p.String())
		}
	}
	f := routers.Finding{Subject: daemon, Text: "covers the prefixes on " + iface}
	_, connected := c.redistribute["connected"]
	switch {
	case len(bare) == 0:
	case connected:
		f.Severity, f.Text = routers.Notice, fmt.Sprintf("announces %s only as redistributed connected routes: no area covers %s", strings.Join(bare, ", "), iface)
	default:
		f.Severity, f.Text = routers.Failing, fmt.Sprintf("no area covers %s on %s: not announced", strings.Join(bare, ", "), iface)
		f.WayOut = fmt.Sprintf("configure `interface %s` with `ip ospf area 0`", iface)
		if daemon == "ospf6d" {
			f.WayOut = fmt.Sprintf("configure `interface %s` with `ipv6 ospf6 area 0`", iface)
		}
	}
	return []routers.Finding{f}
}

// exposed tells of the other addresses on the interface that its area announces along.
func (rd reading) exposed(c ospfConfig, daemon, iface string, ps []netip.Prefix) []routers.Finding {
	var others []string
	for _, a := range rd.addresses {
		p := a.Prefix
		if a.Interface != iface || isIPv4(p) != (daemon == "ospfd") || slices.Contains(ps, p.Masked()) || !p.Addr().IsGlobalUnicast() || !c.covers(p) {
			continue
		}
		others = append(others, p.String())
	}
	if len(others) == 0 {
		return nil
	}
	return []routers.Finding{{Severity: routers.Notice, Subject: daemon, Text: fmt.Sprintf("announces what else is on %s too: %s", iface, strings.Join(others, ", "))}}
}

// examineCosts tells where the operator's own costs are in the way of the degraded one.
func examineCosts(c costs, daemon string, o Options) []routers.Finding {
	f := routers.Finding{Subject: daemon}
	switch cost := o.Degraded.Cost; {
	case cost == 0:
		return nil
	case daemon == "ospfd" && c.v4 >= cost:
		f.Severity, f.Text = routers.Warning, fmt.Sprintf("the cost %d of a degraded prefix is not worse than that of %s itself, %d", cost, o.Interface, c.v4)
		f.WayOut = "set a higher cost in [router.degraded]"
	case daemon == "ospf6d" && c.v6 != 0 && c.v6 != cost:
		f.Severity, f.Text = routers.Warning, fmt.Sprintf("%s has a cost of its own, %d, which is not overwritten: IPv6 prefixes cannot be degraded", o.Interface, c.v6)
		f.WayOut = "remove `ipv6 ospf6 cost`, or use another interface"
	default:
		return nil
	}
	return []routers.Finding{f}
}
