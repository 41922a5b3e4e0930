package frr

import (
	"fmt"
	"maps"
	"slices"

	"vouch/routers"
)

// A bgpSummary is what bgpd says of its neighbours in one family (8.4.4, 10.3).
type bgpSummary struct {
	Peers map[string]bgpPeer `json:"peers"`
}

type bgpPeer struct {
	State  string `json:"state"`     // of the session: Established, Active, Idle (Admin) …
	Reason string `json:"peerState"` // OK, Policy, Admin …
}

// away names the neighbours whose session is not established.
func (s bgpSummary) away() []string {
	var names []string
	for name, p := range s.Peers {
		if p.State != "Established" {
			names = append(names, name)
		}
	}
	return names
}

func showSummary(afi string) string { return fmt.Sprintf("show bgp %s unicast summary json", afi) }

// toPeers gives the neighbours that were sent the prefix, and of those that were not why.
func toPeers(sent []string, all bgpSummary) []routers.Peer {
	peers := advertisedTo(sent)
	for _, name := range slices.Sorted(maps.Keys(all.Peers)) {
		if !slices.Contains(sent, name) {
			peers = append(peers, routers.Peer{Name: name, Stage: routers.Selected, Detail: all.Peers[name].why()})
		}
	}
	return peers
}

// why says why a neighbour was not sent a path that is the best.
func (p bgpPeer) why() string {
	switch {
	case p.State != "Established":
		return fmt.Sprintf("the session is not established (%s)", p.State)
	case p.Reason == "Policy":
		return "without an outbound policy nothing is sent to it (bgp ebgp-requires-policy): give it a route-map out"
	}
	return notSent
}

// notSent is said of a neighbour that is up, as long as it is not known what is before it.
const notSent = "established, but not sent: an outbound filter, or not yet"

// why says what may keep a prefix from an established neighbour that was not sent it.
func (f bgpFamily) why() string {
	if all := f.filters(); all != "" {
		return "established, but not sent: " + all + ", or not yet"
	}
	return "established, but not sent (yet)"
}
