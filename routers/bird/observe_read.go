package bird

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"vouch/routers"
	"vouch/routers/bird/ctl"
)

// A reading is what one BIRD said of all prefixes asked for.
type reading struct {
	protocols []protocol
	peers     []protocol                        // those of them that prefixes are to be given to
	routes    map[netip.Prefix]found            // in every table
	exported  map[string]map[netip.Prefix]found // by peer: what it was given
	databases map[string]database               // by OSPF peer

	shortfalls map[string]string   // with style routes, by peer: what a degraded prefix lacks there
	interfaces map[string][]string // by OSPF protocol, where that was asked: see askInterfaces
}

// found are the routes to one prefix, or why they are not known.
type found struct {
	routes []route
	err    error
}

// A database is what an OSPF protocol has of this router.
type database struct {
	own  map[netip.Prefix]string // see parseOwnLSAs
	full int                     // neighbours
	down string                  // why there is nothing, where the protocol is not up
	err  error                   // it could not be read
}

// observe reads what one BIRD says of the prefixes, which are of its family. What it gives is complete
// also beside an error: then the sights carry it.
func observe(ctx context.Context, t talker, o Options, ps []netip.Prefix) (map[netip.Prefix]sight, error) {
	sights := make(map[netip.Prefix]sight, len(ps))
	rd, err := look(ctx, t, o, ps)
	for _, p := range ps {
		if err != nil {
			sights[p] = sight{err: err}
		} else {
			sights[p] = rd.sight(p)
		}
	}
	return sights, err
}

// observe reads what every BIRD on this host says of its prefixes. One that is away makes only its own
// unknown.
func (d daemons) observe(ctx context.Context, o Options, ps []netip.Prefix) (map[netip.Prefix]sight, error) {
	sights := make(map[netip.Prefix]sight, len(ps))
	var errs []error
	for _, part := range d.split(ctx, ps) {
		some, err := observe(ctx, part.talker, o, part.prefixes)
		for p, s := range some {
			sights[p] = s
		}
		errs = append(errs, err)
	}
	return sights, routers.Join(errs...)
}

// look asks all that is needed.
func look(ctx context.Context, t talker, o Options, ps []netip.Prefix) (reading, error) {
	v, err := t.version(ctx)
	if err != nil {
		return reading{}, err
	}
	protocols, err := readProtocols(ctx, t)
	if err != nil {
		return reading{}, err
	}
	rd := reading{
		protocols: protocols,
		peers:     pickPeers(protocols, o.Peers),
		routes:    make(map[netip.Prefix]found, len(ps)),
		exported:  map[string]map[netip.Prefix]found{},
		databases: map[string]database{},
	}
	if o.Method == MethodInclude && o.Style == StyleRoutes {
		rd.shortfalls = o.Degraded.shortfalls(v, rd.peers)
	}
	qs := rd.askTables(v, ps)
	for _, peer := range rd.peers {
		if peer.kind == kindOSPF {
			qs = append(qs, rd.askOSPF(peer)...)
		} else {
			qs = append(qs, rd.askExported(v, peer, ps)...)
		}
	}
	return rd, put(ctx, t, qs)
}

// readProtocols asks which protocols there are.
func readProtocols(ctx context.Context, t talker) ([]protocol, error) {
	const command = "show protocols all"
	replies, err := t.read(ctx, command)
	if err != nil {
		return nil, err
	}
	if err := replies[0].Refused(command); err != nil {
		return nil, err
	}
	protocols, err := parseProtocols(replies[0])
	if err != nil {
		return nil, routers.Errorf(routers.ErrUnavailable, "%s: %w", command, err)
	}
	return protocols, nil
}

// pickPeers gives the protocols named, or where none is named every BGP and OSPF protocol.
func pickPeers(all []protocol, named []string) []protocol {
	var peers []protocol
	for _, p := range all {
		if slices.Contains(named, p.name) || len(named) == 0 && (p.kind == kindBGP || p.kind == kindOSPF) {
			peers = append(peers, p)
		}
	}
	slices.SortFunc(peers, func(a, b protocol) int { return strings.Compare(a.name, b.name) })
	return peers
}

// A question is a command and what is to be done with its reply.
type question struct {
	command string
	take    func(ctl.Reply)
}

// put asks all questions.
func put(ctx context.Context, t talker, qs []question) error {
	commands := make([]string, len(qs))
	for i, q := range qs {
		commands[i] = q.command
	}
	replies, err := t.read(ctx, commands...)
	if err != nil {
		return err
	}
	for i, q := range qs {
		q.take(replies[i])
	}
	return nil
}

// askTables asks for every route to the prefixes. "for" is never used: it gives the longest match, so with
// a default route nothing would ever be absent.
func (rd reading) askTables(v ctl.Version, ps []netip.Prefix) []question {
	tables := []string{"all"}
	if v.Major == 1 { // knows no "table all"
		tables = rd.tables()
	}
	var qs []question
	for _, p := range ps {
		for _, table := range tables {
			command := fmt.Sprintf("show route %s table %s all", p, table)
			qs = append(qs, question{command, func(r ctl.Reply) {
				rs, err := parseExact(r, command, table, p)
				was := rd.routes[p]
				rd.routes[p] = found{append(was.routes, rs...), firstError(was.err, err)}
			}})
		}
	}
	return qs
}

// tables names every table that a protocol is connected to, as symbols.
func (rd reading) tables() []string {
	var names []string
	for _, p := range rd.protocols {
		for _, c := range p.channels {
			if c.table != "" && c.table != "---" {
				names = append(names, quoted(c.table))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// tellsSent says whether BIRD has `show route exported`, what a peer was really sent: since 2.0.8, which
// keeps book of it. Before, `export` asks the filter of now.
func tellsSent(v ctl.Version) bool { return v.AtLeast(2, 0, 8) }

// askExported asks what a peer was given of the prefixes, one by one or all at once.
func (rd reading) askExported(v ctl.Version, peer protocol, ps []netip.Prefix) []question {
	exported := "export"
	if tellsSent(v) {
		exported = "exported"
	}
	sent := make(map[netip.Prefix]found, len(ps))
	rd.exported[peer.name] = sent
	mine := slices.DeleteFunc(slices.Clone(ps), func(p netip.Prefix) bool {
		c, ok := peer.carrying(p)
		ready, _ := peer.ready(c)
		return !ok || !ready
	})
	if len(mine) == 0 {
		return nil
	}
	if rd.dumpIsCheaper(peer, len(mine)) {
		command := fmt.Sprintf("show route %s %s", exported, quoted(peer.name))
		return []question{{command, func(r ctl.Reply) { takeDump(r, command, mine, sent) }}}
	}
	var qs []question
	for _, p := range mine {
		command := fmt.Sprintf("show route %s %s %s", p, exported, quoted(peer.name))
		qs = append(qs, question{command, func(r ctl.Reply) {
			rs, err := parseExact(r, command, "", p)
			sent[p] = found{rs, err}
		}})
	}
	return qs
}

// dumpIsCheaper tells whether asking once for all that a peer was given costs less than one question for
// each of so many prefixes. BIRD walks the whole table for it, though it prints only what was given.
func (rd reading) dumpIsCheaper(peer protocol, prefixes int) bool {
	const (
		many = 16
		// routesPerQuestion is how many routes BIRD walks past in the time of a question.
		routesPerQuestion = 50
	)
	if prefixes < many {
		return false
	}
	total := 0
	for _, mine := range peer.channels {
		for _, p := range rd.protocols {
			for _, c := range p.channels {
				if c.table == mine.table && c.preferred < 0 && c.state == "UP" {
					return false // not told: it may be the whole Internet
				}
				if c.table == mine.table {
					total += max(0, c.preferred)
				}
			}
		}
	}
	return total <= prefixes*routesPerQuestion
}

// takeDump sorts a reply with everything that a peer was given. When a line is not understood it may be
// about any of the prefixes.
func takeDump(r ctl.Reply, command string, ps []netip.Prefix, sent map[netip.Prefix]found) {
	rs, err := parseRoutes(r, command, "")
	for _, p := range ps {
		sent[p] = found{err: err}
	}
	for _, one := range rs {
		if f, asked := sent[one.prefix]; asked {
			f.routes = append(f.routes, one)
			sent[one.prefix] = f
		}
	}
}

// parseExact reads the routes to one prefix, and takes no others for it.
func parseExact(r ctl.Reply, command, table string, p netip.Prefix) ([]route, error) {
	rs, err := parseRoutes(r, command, strings.Trim(table, "'"))
	for _, one := range rs {
		if one.prefix != p {
			return nil, routers.Errorf(routers.ErrUnavailable, "%q: is told of %s", command, one.prefix)
		}
	}
	return rs, err
}

// askOSPF asks for the LSAs of this router and how many neighbours share them.
func (rd reading) askOSPF(peer protocol) []question {
	rd.databases[peer.name] = database{down: "its state is " + peer.state}
	if peer.state != "up" {
		return nil
	}
	rd.databases[peer.name] = database{}
	state := "show ospf state " + quoted(peer.name)
	neighbours := "show ospf neighbors " + quoted(peer.name)
	return []question{{state, func(r ctl.Reply) {
		db := rd.databases[peer.name]
		if db.err = r.Refused(state); db.err == nil {
			db.own, db.err = parseOwnLSAs(r)
		}
		rd.databases[peer.name] = db
	}}, {neighbours, func(r ctl.Reply) {
		db := rd.databases[peer.name]
		db.full, db.err = countFull(r), firstError(db.err, r.Refused(neighbours))
		rd.databases[peer.name] = db
	}}}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
