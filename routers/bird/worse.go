package bird

import (
	"fmt"
	"slices"
	"strings"

	"vouch/routers"
	"vouch/routers/bird/ctl"
)

// arrives tells, by the words of Degraded in the configuration, which attributes of a static route of ours a
// peer is sent, and which that are meant for it BIRD keeps back.
//
// 1.6 sends a path of its own making. A MED goes to another AS by 2 only where it is the one attribute that
// the route was given, and by 3 never; within the AS it always goes. Seen with 1.6.8, 2.0.7, 2.0.12, 2.17.6
// and 3.1.8, in whatever order they are set.
func (d Degraded) arrives(v ctl.Version, peer protocol) (sent, kept []string) {
	sort := func(name string, set, goes bool) {
		switch {
		case set && goes:
			sent = append(sent, name)
		case set:
			kept = append(kept, name)
		}
	}
	switch peer.kind {
	case kindOSPF:
		sort("metric2", d.Metric2 != 0, true)
	case kindBGP:
		sort("community", len(d.Community) > 0, true)
		sort("prepend", len(d.Prepend) > 0, v.Major > 1)
		alone := len(d.Community)+len(d.Prepend) == 0 && d.Metric2 == 0
		sort("med", d.MED != 0, v.Major == 1 || !peer.external() || v.Major == 2 && alone)
	}
	return sent, kept
}

// external says that a BGP neighbour is of another AS. 1.6 does not tell its own.
func (p protocol) external() bool {
	local := p.detail("Local AS")
	return p.kind == kindBGP && (local == "" || local != p.detail("Neighbor AS"))
}

// detail is the value of the first line of details with that key.
func (p protocol) detail(key string) string {
	for _, line := range p.details {
		if value, ok := strings.CutPrefix(line, key+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// dropping is what is said of a peer, behind its name, that does not take what prepend does.
const dropping = " drops it, as prepend puts that neighbour's own AS "

// refused says that a peer drops what has its own AS in the path (RFC 4271, section 9.1.2).
func (d Degraded) refused(v ctl.Version, peer protocol) bool {
	sent, _ := d.arrives(v, peer)
	return slices.Contains(sent, "prepend") &&
		slices.ContainsFunc(d.Prepend, func(as uint32) bool { return fmt.Sprint(as) == peer.detail("Neighbor AS") })
}

// shortfall says what of the worse way does not get to a peer that is given such a route; empty: nothing is
// missing.
func (d Degraded) shortfall(v ctl.Version, peer protocol) string {
	sent, kept := d.arrives(v, peer)
	keeps := fmt.Sprintf("bird %s keeps back the %s of a static route, unless the export filter sets it", v, strings.Join(kept, " and "))
	switch {
	case d.refused(v, peer):
		return peer.name + dropping + peer.detail("Neighbor AS") + " into the path"
	case len(kept) > 0 && len(sent) > 0:
		return fmt.Sprintf("to %s only its %s tells: %s", peer.name, strings.Join(sent, " and "), keeps)
	case len(kept) > 0:
		return fmt.Sprintf("it is no worse to %s: %s", peer.name, keeps)
	case len(sent) == 0:
		return fmt.Sprintf("it is no worse to %s: nothing in [router.degraded] is for %s", peer.name, peer.kind)
	}
	return ""
}

// byAttributes says whether style routes has a worse way.
func (d Degraded) byAttributes() bool {
	return len(d.Community) > 0 || d.MED != 0 || len(d.Prepend) > 0 || d.Metric2 != 0
}

// shortfalls gives by peer what of the worse way does not get there.
func (d Degraded) shortfalls(v ctl.Version, peers []protocol) map[string]string {
	all := map[string]string{}
	for _, p := range peers {
		if d.byAttributes() && (p.kind == kindBGP || p.kind == kindOSPF) {
			all[p.name] = d.shortfall(v, p)
		}
	}
	return all
}

// worse says which of the peers that are given a degraded prefix do not see that it is.
func (s sight) worse() string {
	text := ""
	for _, name := range s.given() {
		text = join(text, s.shortfalls[name])
	}
	return text
}

// examineWorse says which peers would not see that a prefix is degraded, with style routes.
func (rd reading) examineWorse() []routers.Finding {
	var all []routers.Finding
	for _, p := range rd.peers {
		short := rd.shortfalls[p.name]
		if short == "" {
			continue
		}
		found := routers.Finding{Severity: routers.Warning, Subject: "protocol " + p.name, Text: "when a prefix is degraded: " + short,
			WayOut: "set community in [router.degraded] and have the neighbour act on it, or have an export filter make it worse, as the other styles do"}
		if strings.HasPrefix(short, p.name+dropping) {
			found.Severity, found.WayOut = routers.Failing, "set prepend to this node's own AS"
		}
		all = append(all, found)
	}
	return all
}
