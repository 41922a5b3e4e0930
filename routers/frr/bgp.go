package frr

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"vouch/routers"
)

// bgp reads bgpd's table.
type bgp struct {
	talk     talker
	minPeers int
	ours     func(bgpPath) bool // which local paths count
}

// A bgpPath is one path to a prefix (8.4.4). Absent flags are false.
type bgpPath struct {
	Valid    bool     `json:"valid"`
	Sourced  bool     `json:"sourced"`          // by this router: a network statement, or redistributed
	Local    bool     `json:"local"`            // by a network statement
	Pending  bool     `json:"processScheduled"` // bgpd has yet to decide on it, or to take it away
	BestPath bestPath `json:"bestpath"`
	Peer     struct {
		ID string `json:"peerId"`
	} `json:"peer"`
}

// own is whether this router itself is the source; what neighbours announce is not.
func (p bgpPath) own() bool { return p.Sourced || p.Local }

// stated is whether a network statement is the source.
func (p bgpPath) stated() bool { return p.Local }

// A bestPath is an object in the detailed form of bgpd's answers, and true in the short one.
type bestPath bool

// UnmarshalJSON reads either form.
func (b *bestPath) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, (*bool)(b)) == nil {
		return nil
	}
	var detail struct {
		Overall bool `json:"overall"`
	}
	err := json.Unmarshal(data, &detail)
	*b = bestPath(detail.Overall)
	return err
}

// A bgpEntry is what bgpd holds of one prefix.
type bgpEntry struct {
	Prefix       netip.Prefix               `json:"prefix"`
	AdvertisedTo map[string]json.RawMessage `json:"advertisedTo"` // established peers that were sent the best path
	Paths        []bgpPath                  `json:"paths"`
	Warning      string                     `json:"warning"`
}

func showBGP(p netip.Prefix) string {
	afi := "ipv4"
	if p.Addr().Is6() {
		afi = "ipv6"
	}
	return fmt.Sprintf("show bgp %s unicast %s json", afi, p)
}

// view asks for each prefix, all in one session. When one answer cannot be read the others still count.
func (b bgp) view(ctx context.Context, ps []netip.Prefix) (map[netip.Prefix]sight, error) {
	commands := make([]string, len(ps), len(ps)+2)
	for i, p := range ps {
		commands[i] = showBGP(p)
	}
	commands = append(commands, showSummary("ipv4"), showSummary("ipv6"))
	replies, err := ask(ctx, b.talk, "bgpd", commands...)
	sights := make(map[netip.Prefix]sight, len(ps))
	if err != nil {
		for _, p := range ps {
			sights[p] = sight{detail: err.Error()}
		}
		return sights, err
	}
	var v4, v6 bgpSummary // who is not sent a prefix is told where it can be
	_, _ = decode(replies[len(ps)].Text, &v4), decode(replies[len(ps)+1].Text, &v6)
	var failed error
	for i, p := range ps {
		neighbours := v6
		if isIPv4(p) {
			neighbours = v4
		}
		entry, err := parseBGP(replies[i].Text, p)
		if err != nil {
			err = fmt.Errorf("bgpd: %s: %w", p, err)
			if failed == nil {
				failed = err
			}
			sights[p] = sight{detail: err.Error()}
			continue
		}
		sights[p] = b.judge(entry, neighbours)
	}
	b.explain(ctx, sights, v4, v6)
	return sights, failed
}

// explain finds out what each established neighbour that is not sent a prefix has before it, if there are any,
// and who may keep one that is not in the table, if a neighbour is away.
func (b bgp) explain(ctx context.Context, sights map[netip.Prefix]sight, v4, v6 bgpSummary) {
	waits := func(p routers.Peer) bool { return p.Detail == notSent }
	away := slices.Concat(v4.away(), v6.away())
	if !slices.ContainsFunc(slices.Collect(maps.Values(sights)), func(s sight) bool {
		return slices.ContainsFunc(s.peers, waits) || s.stage == routers.Absent && len(away) > 0
	}) {
		return
	}
	var neighbors map[string]bgpNeighbor
	replies, err := ask(ctx, b.talk, "bgpd", showNeighbors)
	if err != nil || decode(replies[0].Text, &neighbors) != nil {
		return // what is not known is not explained
	}
	keepers := slices.DeleteFunc(away, func(name string) bool {
		return !strings.HasPrefix(neighbors[name].Restart.Mode, restartMode) || neighbors[name].Shutdown
	})
	for prefix, s := range sights {
		if s.stage == routers.Absent && len(keepers) > 0 {
			s.detail = join(s.detail, strings.Join(slices.Compact(slices.Sorted(slices.Values(keepers))), ", ")+" may keep it until the session is there again, or its restart time over (graceful restart)")
			sights[prefix] = s
		}
		for i, p := range s.peers {
			family, there := neighbors[p.Name].Families[bgpFamilyOf(prefix)]
			if waits(p) && there {
				s.peers[i].Detail = family.why()
			}
		}
	}
}

func parseBGP(text string, p netip.Prefix) (bgpEntry, error) {
	var e bgpEntry
	if err := decode(text, &e); err != nil {
		return e, err
	}
	switch {
	case strings.Contains(e.Warning, "instance not found"):
		return e, fmt.Errorf("%w: router bgp: %s", errNotConfigured, e.Warning)
	case e.Warning != "":
		return e, routers.Errorf(routers.ErrUnavailable, "%s", e.Warning)
	case len(e.Paths) == 0:
		return e, pathless(text)
	case e.Prefix != p:
		return e, routers.Errorf(routers.ErrUnavailable, "the answer is about another prefix: %s", excerpt(text))
	}
	return e, nil
}

// pathless wants an answer that does not speak of paths to be empty: bgpd holds no prefix without one.
func pathless(text string) error {
	var members map[string]json.RawMessage
	if err := decode(text, &members); err != nil {
		return err
	}
	if _, ok := members["paths"]; ok || len(members) == 0 {
		return nil
	}
	return unknownShape("no paths, but " + strings.Join(slices.Sorted(maps.Keys(members)), ", "))
}

// judge says how far this router's own path has come. Whom the prefix was sent to counts only when
// that path is the best: otherwise it is another's path that was sent.
func (b bgp) judge(e bgpEntry, neighbours bgpSummary) sight {
	i := slices.IndexFunc(e.Paths, b.ours)
	if i < 0 {
		return sight{stage: routers.Absent, detail: others(e.Paths)}
	}
	switch p := e.Paths[i]; {
	case p.Pending && !(p.Valid && bool(p.BestPath)): // a moment, which has no reason yet
		return sight{stage: routers.Configured}
	case !p.Valid && p.Local:
		return sight{stage: routers.Configured, detail: "the network statement has no route for it in the table (bgp network import-check): put the address on lo, or add a static route"}
	case !p.Valid:
		return sight{stage: routers.Configured, detail: "the path is not valid"}
	case !bool(p.BestPath):
		return sight{stage: routers.Configured, detail: better(e.Paths)}
	}
	sent := slices.Sorted(maps.Keys(e.AdvertisedTo))
	s := sight{stage: routers.Selected, peers: toPeers(sent, neighbours)}
	if !e.Paths[i].Local {
		s.stale, s.routed = staleBy("bgpd"), true
	}
	if len(sent) < b.minPeers {
		s.detail = fmt.Sprintf("sent to %d established peers, at least %d wanted", len(sent), b.minPeers)
		return s
	}
	s.stage = routers.Advertised
	return s
}

// better tells what is taken in place of this router's path.
func better(paths []bgpPath) string {
	switch from := others(paths); {
	case from != "":
		return "another path is better: " + from
	case len(paths) > 1:
		return "another path of this node's own is better (redistributed?)"
	}
	return "bgpd does not take the path"
}

// others tells where paths come from that are not this router's own.
func others(paths []bgpPath) string {
	var from []string
	for _, p := range paths {
		if !p.own() {
			from = append(from, p.Peer.ID)
		}
	}
	if len(from) == 0 {
		return ""
	}
	return "learned from " + strings.Join(from, ", ")
}

// advertisedTo makes peers of the names of those that have the prefix.
func advertisedTo(names []string) []routers.Peer {
	var peers []routers.Peer
	for _, name := range names {
		peers = append(peers, routers.Peer{Name: name, Stage: routers.Advertised})
	}
	return peers
}
