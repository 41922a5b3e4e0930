package bird

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"vouch/routers"
)

// A sight is what one BIRD was just read to say of one prefix.
//
// What a peer is given is read with `show route exported`, which is what was really sent. BIRD before 2.0.8
// can only tell what the filters of now would let pass (`export`): there a route that `configure soft` has
// left at a peer is not seen.
type sight struct {
	routes []route        // all routes to it, in every table
	own    []route        // those that this node did not learn from a neighbour
	others []route        // those of them that are left out as none of the method's: see of
	lsas   []string       // the OSPF protocols that have it in an LSA of this router
	stubs  []string       // those of them that have it from an interface, without a route
	peers  []routers.Peer // Advertised: was given a route of this node's own

	protocols []protocol // all of that BIRD's

	givers     map[string]string // by peer: the protocol whose route it was given, where BIRD tells
	shortfalls map[string]string // by peer: what a degraded prefix lacks there
	err        error             // not nil: something could not be read, and the rest may lack what it says
}

// given names the peers that have the prefix from this node.
func (s sight) given() []string { return routers.Observation{Peers: s.peers}.Reached() }

// has says whether BIRD has a protocol of that name, or could not be asked.
func (s sight) has(name string) bool {
	return s.err != nil || slices.ContainsFunc(s.protocols, func(p protocol) bool { return p.name == name })
}

// best is a route of this node's own that its table prefers.
func (s sight) best() (route, bool) {
	i := slices.IndexFunc(s.own, func(r route) bool { return r.best })
	if i < 0 {
		return route{}, false
	}
	return s.own[i], true
}

// strays names the peers that have the prefix though no route of ours is in a table, nor is it a stub, and the
// protocol which is not the method's that gives it to them, where there is one.
func (s sight) strays() (peers []string, by string) {
	if len(s.own) > 0 {
		return nil, ""
	}
	for _, name := range s.given() {
		if slices.Contains(s.stubs, name) {
			continue
		}
		peers = append(peers, name)
		for _, r := range s.others {
			if s.givers[name] == r.protocol || s.givers[name] == "" && r.best {
				by = r.protocol
			}
		}
	}
	return peers, by
}

// left says what strays are.
func (s sight) left() string {
	peers, by := s.strays()
	switch {
	case len(peers) == 0:
		return ""
	case by != "":
		return fmt.Sprintf("given to %s by the route of protocol %s, and none of ours is there", few(peers), by)
	}
	return "no route of ours is left, and still given to " + few(peers)
}

// stage says how far the prefix has come when it is to reach so many peers, and why no further. Nothing
// is Absent unless everything was read and said so.
func (s sight) stage(wanted int) (routers.Stage, string) {
	_, best := s.best()
	left := s.left()
	switch {
	case len(s.given()) >= wanted:
		return routers.Advertised, left
	case s.unread() != "":
		return routers.Unknown, s.unread()
	case left != "":
		return routers.Configured, left
	case best || len(s.lsas) > 0:
		return routers.Selected, s.lacking(wanted)
	case len(s.own) > 0:
		return routers.Configured, s.preferred()
	}
	return routers.Absent, ""
}

// whose names the protocol of the route that peers were given, and those peers, while the route is there; empty where
// BIRD does not tell.
func (s sight) whose() (protocol, peers string) {
	for _, name := range s.given() {
		by := s.givers[name]
		if slices.ContainsFunc(s.own, func(r route) bool { return r.protocol == by }) {
			return by, few(s.given())
		}
	}
	return "", ""
}

// unheeded says whose route it is that stays though it is to be withdrawn by the number of that name.
func (s sight) unheeded(name string) string {
	by, peers := s.whose()
	if by == "" {
		return ""
	}
	return fmt.Sprintf("%s is 1, and the route of protocol %s, which that does not disable, is given to %s", name, by, peers)
}

// unread says what could not be read.
func (s sight) unread() string {
	if s.err != nil {
		return s.err.Error()
	}
	for _, p := range s.peers {
		if p.Stage == routers.Unknown {
			return p.Name + ": " + p.Detail
		}
	}
	return ""
}

// lacking says why the peers that do not have the prefix do not.
func (s sight) lacking(wanted int) string {
	const most = 3
	var why []string
	for _, p := range s.peers {
		if p.Stage != routers.Advertised && p.Detail != "" {
			why = append(why, p.Name+": "+p.Detail)
		}
	}
	if n := len(why); n > most {
		why = append(why[:most], fmt.Sprintf("and %d more", n-most))
	}
	switch {
	case len(why) > 0:
	case len(s.peers) == 0:
		why = []string{"there is no protocol to give it to"}
	case len(s.peers) < wanted:
		why = []string{fmt.Sprintf("no more than %s can be given it", few(s.names()))}
	default:
		why = []string{"the others are not given it"}
	}
	return fmt.Sprintf("given to %d of %d: %s", len(s.given()), wanted, strings.Join(why, "; "))
}

// names are those of the peers.
func (s sight) names() []string {
	names := make([]string, len(s.peers))
	for i, p := range s.peers {
		names[i] = p.Name
	}
	return names
}

// preferred says which route stands before ours.
func (s sight) preferred() string {
	for _, r := range s.routes {
		if r.best {
			return fmt.Sprintf("the route of %s in table %s is preferred to that of %s", r.protocol, r.table, s.own[0].protocol)
		}
	}
	return fmt.Sprintf("the route of %s is not valid", s.own[0].protocol)
}

// observation is the sight as the contract wants it, when the prefix is to reach so many peers. What is given by
// another's route stands on nothing of ours.
func (s sight) observation(p netip.Prefix, wanted int) routers.Observation {
	stage, detail := s.stage(wanted)
	_, by := s.strays()
	return routers.Observation{Prefix: p, Stage: stage, Broken: by != "", Peers: s.peers, Detail: detail}
}

// sight judges what was read of one prefix.
func (rd reading) sight(p netip.Prefix) sight {
	found := rd.routes[p]
	s := sight{routes: found.routes, err: found.err, protocols: rd.protocols, givers: map[string]string{}, shortfalls: rd.shortfalls}
	own, err := rd.own(found.routes)
	s.own = own
	if s.err == nil {
		s.err = err
	}
	for _, peer := range rd.peers {
		c, ok := peer.carrying(p)
		if !ok {
			continue
		}
		judged := routers.Peer{Name: peer.name}
		if db, ok := rd.databases[peer.name]; ok {
			if lsa, in := db.own[p]; in {
				s.lsas = append(s.lsas, peer.name)
				if isStub(lsa) {
					s.stubs = append(s.stubs, peer.name)
				}
			}
			judged.Stage, judged.Detail = rd.judgeOSPF(db, p, s)
		} else {
			judged.Stage, judged.Detail = rd.judgePeer(peer, c, p, s)
			s.givers[peer.name] = rd.giver(peer, p)
		}
		if judged.Stage != routers.Advertised && judged.Stage != routers.Unknown && judged.Detail == "" {
			judged.Stage, judged.Detail = lagging(peer, c, s)
		}
		s.peers = append(s.peers, judged)
	}
	return s
}

// own picks the routes that were not learned from a neighbour.
func (rd reading) own(rs []route) (own []route, err error) {
	for _, r := range rs {
		i := slices.IndexFunc(rd.protocols, func(p protocol) bool { return p.name == r.protocol })
		switch {
		case i < 0:
			err = routers.Errorf(routers.ErrUnavailable, "there is a route of %s, which is no protocol that bird shows", r.protocol)
		case !rd.protocols[i].learns():
			own = append(own, r)
		}
	}
	return own, err
}

// giver names the protocol of the route of ours that a peer was given.
func (rd reading) giver(peer protocol, p netip.Prefix) string {
	own, _ := rd.own(rd.exported[peer.name][p].routes)
	if len(own) == 0 {
		return ""
	}
	return own[0].protocol
}

// judgePeer tells whether a peer was given a route of ours. Nothing said beside a stage that is neither
// Advertised nor Unknown: it was not.
func (rd reading) judgePeer(peer protocol, c channel, p netip.Prefix, s sight) (routers.Stage, string) {
	if ready, why := peer.ready(c); !ready {
		return standing(c, s), why
	}
	sent := rd.exported[peer.name][p]
	if sent.err != nil {
		return routers.Unknown, sent.err.Error()
	}
	own, err := rd.own(sent.routes)
	switch {
	case err != nil:
		return routers.Unknown, err.Error()
	case len(own) > 0:
		return routers.Advertised, ""
	case len(sent.routes) > 0:
		return standing(c, s), "it is given the route of " + sent.routes[0].protocol + ", which a neighbour sent us"
	}
	return standing(c, s), ""
}

// judgeOSPF tells whether a prefix is in an LSA of ours, with a neighbour that has the same database.
func (rd reading) judgeOSPF(db database, p netip.Prefix, s sight) (routers.Stage, string) {
	_, in := db.own[p]
	switch {
	case db.err != nil:
		return routers.Unknown, db.err.Error()
	case in && db.full == 0:
		return routers.Selected, "in its LSA, and no neighbour is full"
	case in:
		return routers.Advertised, ""
	case db.down != "":
		return standing(channel{}, s), db.down
	}
	return routers.Absent, ""
}

// standing is how far the prefix has come in the table that a channel takes from; a channel without a
// table stands for any.
func standing(c channel, s sight) routers.Stage {
	stage := routers.Absent
	for _, r := range s.own {
		if c.table != "" && r.table != c.table {
			continue
		}
		if r.best {
			return routers.Selected
		}
		stage = routers.Configured
	}
	return stage
}

// lagging says why a peer that is ready has nothing.
func lagging(peer protocol, c channel, s sight) (routers.Stage, string) {
	stage := standing(c, s)
	switch {
	case len(s.own) == 0:
		return stage, ""
	case stage == routers.Absent:
		return stage, "no route of ours is in its table " + c.table
	case stage == routers.Configured:
		return stage, s.preferred()
	case c.export == "REJECT":
		return stage, "it exports nothing (export none)"
	case c.export == "ACCEPT":
		return stage, "not given yet, though it exports all"
	}
	return stage, rejecting + c.export + " does not let it pass"
}

// rejecting begins what is said of a peer whose filter keeps it from the prefix.
const rejecting = "its export filter "
