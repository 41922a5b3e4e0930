package frr

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"vouch/routers"
)

// ospf reads the link-state databases of ospfd (IPv4) and ospf6d (IPv6).
type ospf struct {
	talk  talker
	heard *heard
}

// maxAge is the age of an LSA that is being flushed: nobody counts it any more (RFC 2328, 14).
const maxAge = 3600

// An entry is one prefix that this node originates.
type entry struct {
	kind string
	cost int
	age  int // seconds, of the LSA that holds it
}

// The kinds of entries. An external LSA holds one prefix; the others share one LSA for each area.
const (
	stubLink    = "stub link"
	intraPrefix = "intra-area prefix"
	externalLSA = "external LSA"
)

// staleBy tells the way out when what is announced outlives the address or route that it is made of. The daemon
// learns of those from zebra: one that lives on while zebra is restarted never hears of the addresses taken away
// meanwhile, and of no route any more, as it asks the new zebra for none (8.4.4, 10.3). Nothing that a driver may do
// helps: 8.4.4's bgpd does not even hear when its redistribute is configured again.
func staleBy(daemon string) string {
	return fmt.Sprintf("if that lasts, %s missed the change (was zebra restarted alone?): restart %[1]s", daemon)
}

// ospfDaemon is who announces a prefix by OSPF.
func ospfDaemon(p netip.Prefix) string {
	if isIPv4(p) {
		return "ospfd"
	}
	return "ospf6d"
}

// An lsdb is what this node originates in one family.
type lsdb struct {
	held      map[netip.Prefix]entry
	flushed   map[netip.Prefix]bool             // external, being flushed: since when is not told (ospfd only)
	linked    bool                              // there is a router-LSA of the node's own with links, perhaps being flushed (ospfd only)
	alone     bool                              // and none of the links leads to another router (ospfd only)
	age       int                               // seconds, of the LSA that holds the node's own networks; -1 when there is none
	early     int                               // by how many seconds the daemon may call an LSA older than it is
	neighbors []string                          // routers with which there is a full adjacency
	behind    []string                          // those of them that have not acknowledged everything
	apart     []string                          // and perhaps not even the LSA that holds the node's own networks
	full      map[string]int                    // those of them all: since when in seconds, where that is known
	settled   []string                          // and which of them have acknowledged everything once since then
	hung      map[string]map[netip.Prefix]entry // and which have not for long, with what they had acknowledged before
}

// view reads the databases of the families asked for, side by side: when one daemon hangs the other
// still counts.
func (o ospf) view(ctx context.Context, ps []netip.Prefix) (map[netip.Prefix]sight, error) {
	v4, v6, err4, err6 := o.databases(ctx, ps)
	sights := make(map[netip.Prefix]sight, len(ps))
	for _, p := range ps {
		db, err := v6, err6
		if p.Addr().Is4() {
			db, err = v4, err4
		}
		if err != nil {
			sights[p] = sight{detail: err.Error()}
			continue
		}
		sights[p] = db.sight(p)
	}
	return sights, routers.Join(err4, err6)
}

// databases reads those of the families that there are prefixes of.
func (o ospf) databases(ctx context.Context, ps []netip.Prefix) (v4, v6 lsdb, err4, err6 error) {
	var all []func()
	if slices.ContainsFunc(ps, isIPv4) {
		all = append(all, func() { v4, err4 = o.read4(ctx) })
	}
	if slices.ContainsFunc(ps, isIPv6) {
		all = append(all, func() { v6, err6 = o.read6(ctx) })
	}
	abreast(all...)
	now := time.Now()
	o.heard.note("ospfd", &v4, now)
	o.heard.note("ospf6d", &v6, now)
	return v4, v6, err4, err6
}

func (o ospf) read4(ctx context.Context) (lsdb, error) {
	replies, err := ask(ctx, o.talk, "ospfd",
		"show ip ospf database router self-originate json",
		"show ip ospf database external self-originate json",
		"show ip ospf neighbor json")
	if err != nil {
		return lsdb{}, err
	}
	db, err := parseOSPF(replies[0].Text, replies[1].Text, replies[2].Text)
	if err != nil {
		return lsdb{}, fmt.Errorf("ospfd: %w", err)
	}
	return db, nil
}

func (o ospf) read6(ctx context.Context) (lsdb, error) {
	replies, err := ask(ctx, o.talk, "ospf6d",
		"show ipv6 ospf6 database intra-prefix self-originated detail json",
		"show ipv6 ospf6 database as-external self-originated detail json",
		"show ipv6 ospf6 neighbor json",
		"show ipv6 ospf6 neighbor detail json")
	if err != nil {
		return lsdb{}, err
	}
	db, err := parseOSPF6(replies[0].Text, replies[1].Text, replies[2].Text)
	if err != nil {
		return lsdb{}, fmt.Errorf("ospf6d: %w", err)
	}
	db.readPending(replies[3].Text)
	return db, nil
}

// sight judges one prefix. The link-state database is flooded to whoever is a neighbour, so what is in
// it has arrived as far as this node can tell, if there is one; who has not acknowledged it is told
// beside.
func (db lsdb) sight(p netip.Prefix) sight {
	e, ok := db.held[p]
	if !ok {
		s := sight{stage: routers.Absent, detail: db.near(p)}
		if who := db.late(db.age); who != "" && !db.flushed[p] {
			s.detail = join(s.detail, "the last change is not yet acknowledged by "+who)
		}
		return s
	}
	s := sight{stage: routers.Advertised, peers: db.peers(p), detail: fmt.Sprintf("%s, cost %d", e.kind, e.cost), stale: staleBy(ospfDaemon(p)), routed: e.kind == externalLSA, cost: e.cost}
	told := func(p routers.Peer) bool { return p.Stage == routers.Advertised }
	if !slices.ContainsFunc(s.peers, told) {
		s.stage = routers.Selected
	}
	switch who := db.late(e.age); {
	case len(db.neighbors) == 0:
		s.detail += ", no full neighbour to tell"
	case s.stage == routers.Selected && !slices.ContainsFunc(db.neighbors, func(n string) bool { return !db.joining(n) }):
		s.detail += ", not yet acknowledged by " + strings.Join(db.neighbors, ", ") + " since the adjacency is there"
	case who != "":
		s.detail += ", not yet acknowledged by " + who
	}
	return s
}

// peers gives the neighbours, and which of them cannot be said to have the LSA of a prefix.
func (db lsdb) peers(p netip.Prefix) []routers.Peer {
	peers := advertisedTo(db.neighbors)
	for i, n := range peers {
		switch {
		case db.joining(n.Name):
			peers[i].Stage, peers[i].Detail = routers.Selected, "the adjacency is new, and not everything acknowledged yet"
		case db.lacks(n.Name, p):
			peers[i].Stage, peers[i].Detail = routers.Selected, "not yet acknowledged"
		}
	}
	return peers
}

// lacks tells whether a neighbour that hangs never had a prefix, as far as was read.
func (db lsdb) lacks(neighbor string, p netip.Prefix) bool {
	had, hangs := db.hung[neighbor]
	_, known := had[p]
	return hangs && !known
}

// joins is for how many seconds after an adjacency has become full what this node originates counts as a part
// of its coming about. An LSA that the neighbour drops is acknowledged 12 s after at worst (8.4.4, 10.3).
const joins = 20

// joining tells whether a neighbour has not acknowledged what this node said when the adjacency became full.
// That takes the place of an LSA by which there is no adjacency, so that without it nobody has a route to this
// node; and the neighbour drops it when it had that other one for less than a second, to be sent it again
// after 5 or 10 s (8.4.4, 10.3). Of LSAs made after an acknowledged one, that is still of use.
func (db lsdb) joining(neighbor string) bool {
	full, known := db.full[neighbor]
	if slices.Contains(db.settled, neighbor) {
		return false
	}
	return db.alone || known && full <= joins && slices.Contains(db.apart, neighbor) && db.age >= 0 && db.age <= full+1+db.early
}

// patient is the age in seconds from which an LSA ought to have been acknowledged: a neighbour may take
// a second to collect acknowledgements (RFC 2328, 13.5), and ages are in whole seconds.
const patient = 2

// late names the neighbours that have not acknowledged everything while the LSA of that age ought to be.
func (db lsdb) late(age int) string {
	if age < patient {
		return ""
	}
	return strings.Join(db.behind, ", ")
}

// near tells of the networks in the database that hold p's address with another length: a loopback
// that is announced as a /64, say.
func (db lsdb) near(p netip.Prefix) string {
	var found []netip.Prefix
	for q := range db.held {
		if q != p && q.Bits() > 0 && q.Contains(p.Addr()) {
			found = append(found, q)
		}
	}
	if len(found) == 0 {
		return ""
	}
	slices.SortFunc(found, comparePrefixes)
	return fmt.Sprintf("OSPF holds %s, but not %s", strings.Trim(fmt.Sprint(found), "[]"), p)
}

func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

// fresh tells whether the LSA that a change of p replaces may be less than a second old.
func (db lsdb) fresh(p netip.Prefix) bool {
	if e, ok := db.held[p]; ok && e.kind == externalLSA {
		return e.age <= db.early
	}
	return db.age >= 0 && db.age <= db.early
}

// hold notes a prefix; of two entries the lower cost is the one that counts.
func (db *lsdb) hold(p netip.Prefix, e entry) {
	if old, ok := db.held[p]; !ok || e.cost < old.cost {
		db.held[p] = e
	}
}

// lsa4 is an LSA of ospfd, a router-LSA or an external one.
type lsa4 struct {
	Age   int    `json:"lsaAge"`
	ID    string `json:"linkStateId"`
	Mask  mask   `json:"networkMask"` // external
	Cost  int    `json:"metric"`      // external
	Links map[string]struct {
		Type    string     `json:"linkType"`
		Network netip.Addr `json:"networkAddress"`
		Mask    mask       `json:"networkMask"`
		Cost    int        `json:"tos0Metric"`
	} `json:"routerLinks"`
}

// database4 is what ospfd answers: 8.4.4 has its names in words, 10.3 in camel case. Both have
// external LSAs of 8.4.4 in camel case too, where one of them is asked for.
type database4 struct {
	Router     map[string]list[lsa4] `json:"Router Link States"`
	Externals  list[lsa4]            `json:"AS External Link States"`
	Router10   *routers10            `json:"routerLinkStates"`
	External10 list[lsa4]            `json:"asExternalLinkStates"`
}

type routers10 struct {
	Areas map[string]list[lsa4] `json:"areas"`
}

// routerLSAs gives this node's router-LSAs, one for each area.
func (d database4) routerLSAs() []lsa4 {
	areas := slices.Collect(maps.Values(d.Router))
	if d.Router10 != nil {
		areas = slices.AppendSeq(areas, maps.Values(d.Router10.Areas))
	}
	return slices.Concat(areas...)
}

func parseOSPF(router, external, neighbor string) (lsdb, error) {
	var r, e database4
	if err := decodeWhole(router, &r); err != nil {
		return lsdb{}, err
	}
	if err := decodeWhole(external, &e); err != nil {
		return lsdb{}, err
	}
	db := lsdb{held: map[netip.Prefix]entry{}, flushed: map[netip.Prefix]bool{}, age: -1}
	attached := false
	for _, l := range r.routerLSAs() {
		db.linked = db.linked || len(l.Links) > 0
		if l.Age >= maxAge {
			continue
		}
		if db.age < 0 || l.Age < db.age {
			db.age = l.Age
		}
		for _, link := range l.Links {
			attached = attached || link.Type != "Stub Network"
			if p := netip.PrefixFrom(link.Network, int(link.Mask)); link.Type == "Stub Network" && p.IsValid() {
				db.hold(p.Masked(), entry{stubLink, link.Cost, l.Age})
			}
		}
	}
	db.alone = db.linked && !attached
	youngest := db.age
	for _, l := range slices.Concat(e.Externals, e.External10) {
		a, err := netip.ParseAddr(l.ID)
		switch p := netip.PrefixFrom(a, int(l.Mask)); {
		case err != nil || !p.IsValid():
		case l.Age >= maxAge:
			db.flushed[p.Masked()] = true
		default:
			db.hold(p.Masked(), entry{externalLSA, l.Cost, l.Age})
			youngest = min(youngest, l.Age)
		}
	}
	if err := db.readNeighbors(neighbor); err != nil {
		return lsdb{}, err
	}
	if youngest == db.age { // else what is not acknowledged may be an external LSA
		db.apart = db.behind
	}
	if len(db.neighbors) > 0 && !db.linked {
		return lsdb{}, unknownShape("a full neighbour, but no router-LSA that has links")
	}
	return db, nil
}

// readNeighbors reads ospfd's neighbours. The list that counts what was not acknowledged has one name
// in both releases.
func (db *lsdb) readNeighbors(text string) error {
	var all struct {
		Neighbors map[string]list[struct {
			Converged      string `json:"converged"`
			Since          *int   `json:"upTimeInMsec"` // its last step forward
			Unacknowledged int    `json:"linkStateRetransmissionListCounter"`
		}] `json:"neighbors"`
	}
	if err := decodeWhole(text, &all); err != nil {
		return err
	}
	for id, adjacencies := range all.Neighbors {
		for _, a := range adjacencies {
			if a.Converged == "Full" {
				since := -1
				if a.Since != nil {
					since = *a.Since / 1000
				}
				db.adjacent(id, since, a.Unacknowledged > 0)
			}
		}
	}
	slices.Sort(db.neighbors)
	slices.Sort(db.behind)
	return nil
}

// adjacent notes a full adjacency, since when in seconds or -1 when that is not known. Of several with one
// neighbour the oldest counts, and what one of them lacks the neighbour may lack.
func (db *lsdb) adjacent(id string, since int, behind bool) {
	if !slices.Contains(db.neighbors, id) {
		db.neighbors = append(db.neighbors, id)
	}
	if behind && !slices.Contains(db.behind, id) {
		db.behind = append(db.behind, id)
	}
	if since < 0 {
		return
	}
	if db.full == nil {
		db.full = map[string]int{}
	}
	db.full[id] = max(db.full[id], since)
}
