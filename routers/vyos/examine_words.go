package vyos

import (
	"fmt"
	"regexp"
	"strings"

	"vouch/routers"
)

// What package frr finds is told in the words of VyOS, which writes FRR's configuration.

// enabled is FRR's hint at a file that no VyOS has for its operators.
var enabled = regexp.MustCompile(`is \w+ enabled in /etc/frr/daemons, and started\?`)

// startedByVyOS is a text about FRR without that hint.
func startedByVyOS(text string) string {
	return enabled.ReplaceAllLiteralString(text, "VyOS starts it with the rest of FRR: see journalctl -u frr")
}

// inVyOSWords is an error about FRR without it.
type inVyOSWords struct{ error }

func (e inVyOSWords) Error() string { return startedByVyOS(e.error.Error()) }
func (e inVyOSWords) Unwrap() error { return e.error }

// asNumber is said of a line of BGP's.
const asNumber = " (VyOS 1.3: `protocols bgp ASN …`)"

var (
	// distributed is FRR's hint at the line of a filter.
	distributed = regexp.MustCompile("have (access-list \\S+) permit it, or take `distribute-list (\\S+) out (\\S+)` away")
	// activated is FRR's line for an address-family of a neighbour.
	activated = regexp.MustCompile("`address-family (ipv4|ipv6) unicast`, `neighbor (\\S+) activate`")
	// permits is its hint at a route-map that lets everything through.
	permits = regexp.MustCompile("have each entry of route-map (\\S+) that permits say `match (ip|ipv6) address prefix-list LIST`, with a")
)

// inVyOS tells in VyOS's words how what FRR lacks is configured.
func inVyOS(f routers.Finding, o Options) routers.Finding {
	f.Text = startedByVyOS(f.Text)
	switch {
	case strings.Contains(f.WayOut, "redistribute "):
		f.WayOut = redistributing(f, o)
	case activated.MatchString(f.WayOut):
		lines := activated.ReplaceAllString(f.WayOut, "`set protocols bgp neighbor $2 address-family $1-unicast`")
		f.WayOut = strings.TrimPrefix(lines, "configure ") + asNumber + ", commit, save"
	}
	// VyOS writes frr.conf, and has no word for this line.
	f.WayOut = strings.Replace(f.WayOut, "put `no zebra nexthop kernel enable` into frr.conf and restart FRR; ", "", 1)
	// An address that comes and goes is VyOS's to configure; the other ways are in contrib/vyos.
	f.WayOut = strings.Replace(f.WayOut, "; or use method address", " (see contrib/vyos/README.md)", 1)
	f.WayOut = distributed.ReplaceAllString(f.WayOut, "have policy $1 permit it, or `delete protocols ospf access-list $2 export $3`, commit, save")
	f.WayOut = permits.ReplaceAllString(f.WayOut, "`set policy route-map $1 rule N match $2 address prefix-list LIST` for each rule of it that permits, commit, save (see contrib/vyos); with LIST a")
	return f
}

// redistributing is the line of a redistribution, never without a route-map, by its name in contrib/vyos.
func redistributing(f routers.Finding, o Options) string {
	family, suffix := "ipv4", ""
	if f.Subject == "ospf6d" || strings.HasPrefix(f.Text, "ipv6: ") {
		family, suffix = "ipv6", "6"
	}
	under, version := map[string]string{"ospfd": "ospf", "ospf6d": "ospfv3"}[f.Subject], ""
	if f.Subject == "bgpd" {
		under, version = "bgp address-family "+family+"-unicast", asNumber
	}
	_, with, _ := strings.Cut(f.WayOut, "`, ")
	return fmt.Sprintf("`set protocols %s redistribute %s route-map ANYCAST%s`%s, and that route-map %s (see contrib/vyos), commit, save", under, o.source(), suffix, version, with)
}
