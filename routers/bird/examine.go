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

// An exam is what is examined, beside what BIRD says.
type exam struct {
	options Options
	names   *names
	memo    *memo
}

// examine says what in BIRD, and in the files that it includes, would keep the prefixes from being announced
// or withdrawn. It changes nothing.
func (d daemons) examine(ctx context.Context, e exam, ps []netip.Prefix) []routers.Finding {
	var all []routers.Finding
	var named []string // every protocol that some BIRD has
	for _, part := range d.split(ctx, ps) {
		found, protocols := examinePart(ctx, part, e)
		if part.talker == d.six {
			ofSix(found)
		}
		all, named = append(all, found...), append(named, protocols...)
	}
	if len(named) > 0 {
		all = append(all, missingPeers(e.options.Peers, named)...)
	}
	if e.options.Method != MethodAddress {
		all = append(all, undelivered(ctx, ps)...)
	}
	return all
}

// examinePart does so for one BIRD, and names its protocols.
func examinePart(ctx context.Context, part part, e exam) (all []routers.Finding, named []string) {
	version, all := access(ctx, part.talker)
	if version == (ctl.Version{}) {
		return append(all, filesOfNobody(e.options, part.prefixes)...), nil
	}
	subject := "bird " + version.String()
	rd, err := look(ctx, part.talker, e.options, part.prefixes)
	if err == nil {
		err = rd.askInterfaces(ctx, part.talker)
	}
	if err != nil {
		return append(all, routers.Finding{Severity: routers.Failing, Subject: subject, Text: err.Error()}), nil
	}
	for _, p := range rd.protocols {
		named = append(named, p.name)
	}
	c := checked{}
	if !waitsAt(e.options.Include) && !waitsAt(e.options.Include6) {
		c = e.memo.checkup(ctx, part.talker, version)
	}
	off, found := examineMethod(ctx, part, version, rd, e, c)
	all = append(all, found...)
	return append(all, examineReading(rd, e.options, e.names, subject, part.prefixes, off)...), named
}

// ofSix says that findings are of the bird6 of BIRD 1.6, which may have protocols by the same names.
func ofSix(found []routers.Finding) {
	for i, f := range found {
		switch rest, ok := strings.CutPrefix(f.Subject, "bird"); {
		case ok && (rest == "" || rest[0] == ' '):
			found[i].Subject = "bird6" + rest
		case strings.HasPrefix(f.Subject, "protocol "):
			found[i].Subject += " of bird6"
		}
	}
}

// nobody is a pattern that no protocol's name fits. BIRD answers it with NoProtocolMatches where changes are
// allowed, and with AccessDenied where they are not.
const nobody = `enable "vouch-is-allowed-to-*"`

// access says whether BIRD answers, and lets itself be changed. The version is zero when it does not answer.
func access(ctx context.Context, t talker) (ctl.Version, []routers.Finding) {
	v, err := t.version(ctx)
	if err != nil {
		return v, []routers.Finding{{Severity: routers.Failing, Subject: "bird", Text: err.Error(),
			WayOut: "start bird, or set socket to its control socket"}}
	}
	subject := "bird " + v.String()
	all := []routers.Finding{{Severity: routers.Fine, Subject: subject, Text: "answers"}}
	if o, ok := t.(*orElse); ok {
		if _, err := o.first.version(ctx); err != nil {
			all = append(all, routers.Finding{Severity: routers.Notice, Subject: subject, Text: err.Error() + "; birdc is run for every question instead"})
		}
	}
	if v.Major == 1 {
		all = append(all, routers.Finding{Severity: routers.Notice, Subject: subject,
			Text:   "cannot tell what a neighbour was sent, only what the filters of now would let pass: what `configure soft` leaves at a neighbour is not seen",
			WayOut: "never use `configure soft`, or upgrade to BIRD 2"})
	}
	replies, err := t.change(ctx, nobody)
	switch {
	case err != nil:
		all = append(all, routers.Finding{Severity: routers.Failing, Subject: subject, Text: err.Error()})
	case replies[0].Has(ctl.AccessDenied):
		all = append(all, routers.Finding{Severity: routers.Failing, Subject: subject,
			Text: "its control socket is restricted: nothing can be changed", WayOut: "set socket to one that bird's configuration does not restrict"})
	}
	const status = "show status"
	if replies, err := t.read(ctx, status); err == nil && reconfiguring(replies[0]) {
		all = append(all, routers.Finding{Severity: routers.Warning, Subject: subject,
			Text: "a reconfiguration is in progress: what is changed now has to wait for it", WayOut: "look at `birdc show protocols` for one that does not go down"})
	}
	return v, all
}

// reconfiguring tells whether `show status` says that a new configuration is not in force yet. Its code is
// the same as that of a daemon at rest, so only the text can tell.
func reconfiguring(r ctl.Reply) bool {
	return slices.ContainsFunc(r.Texts(ctl.Status), func(text string) bool { return strings.Contains(text, "Reconfiguration in progress") })
}

// missingPeers names the peers in the options that no BIRD has.
func missingPeers(wanted, named []string) []routers.Finding {
	var all []routers.Finding
	for _, name := range wanted {
		if !slices.Contains(named, name) {
			all = append(all, routers.Finding{Severity: routers.Failing, Subject: "protocol " + name,
				Text: "is among the peers, and bird has no such protocol", WayOut: "correct peers, or bird's configuration"})
		}
	}
	return all
}

// examineReading judges what was read of one BIRD, by which the prefixes in off are told not to be announced.
func examineReading(rd reading, o Options, n *names, subject string, ps []netip.Prefix, off map[netip.Prefix]bool) []routers.Finding {
	var all []routers.Finding
	for _, p := range rd.peers {
		all = append(all, rd.examinePeer(p, rd.stubs(p, o, ps))...)
	}
	all = append(all, withoutPeers(rd.peers, subject, ps)...)
	for _, p := range ps {
		all = append(all, rd.examinePrefix(p, o, n, off[p])...)
	}
	return all
}

// stubs says whether an OSPF protocol may take prefixes from an interface, which no filter has to let pass. On which
// interfaces it would run is not told while they have no address.
func (rd reading) stubs(p protocol, o Options, ps []netip.Prefix) bool {
	if p.kind != kindOSPF {
		return false
	}
	for _, q := range ps {
		if _, ok := p.carrying(q); !ok {
			continue
		}
		direct, _, runs := rd.takes(o.Interface, q)
		if isStub(rd.databases[p.name].own[q]) || o.Method == MethodAddress && (runs || !direct) {
			return true
		}
	}
	return false
}

// examinePeer says what keeps any prefix from going through a peer, or from going away. Stubs need no filter.
func (rd reading) examinePeer(p protocol, stubs bool) []routers.Finding {
	subject := "protocol " + p.name
	var all []routers.Finding
	for _, c := range p.channels {
		found := routers.Finding{Severity: routers.Warning, Subject: subject, WayOut: "look at `birdc show protocols all " + p.name + "`, or leave it out of peers"}
		if ready, why := p.ready(c); !ready {
			found.Text = why
		} else if c.export == "REJECT" && !stubs {
			found.Text = strings.TrimSpace("exports nothing " + c.name)
			found.WayOut = "give it an export filter that lets the prefixes pass, or leave it out of peers"
		} else {
			continue
		}
		if !slices.Contains(all, found) { // a session that is away is so for all its channels
			all = append(all, found)
		}
	}
	if p.kind == kindOSPF && p.state == "up" && rd.databases[p.name].full == 0 && rd.databases[p.name].err == nil {
		all = append(all, routers.Finding{Severity: routers.Warning, Subject: subject, Text: "no neighbour is full",
			WayOut: "look at `birdc show ospf neighbors " + p.name + "`"})
	}
	if p.restartsGracefully() {
		all = append(all, routers.Finding{Severity: routers.Warning, Subject: subject,
			Text:   "graceful restart is on: when bird dies, the neighbour keeps sending traffic here until the restart time is over",
			WayOut: "set `graceful restart aware;` in the protocol, so that the neighbour drops the routes at once"})
	}
	if len(all) == 0 {
		all = append(all, routers.Finding{Severity: routers.Fine, Subject: subject, Text: "can be given prefixes"})
	}
	return all
}

// restartsGracefully tells whether a BGP protocol asks its neighbour to keep routes over a restart. By
// default BIRD announces that capability without a restart time: it only helps others. It is not shown
// while the session is away, and by 1.6 never.
func (p protocol) restartsGracefully() bool {
	ours := p.details
	if i := slices.Index(ours, "Neighbor capabilities"); i >= 0 {
		ours = ours[:i]
	}
	return p.kind == kindBGP && slices.ContainsFunc(ours, func(line string) bool { return strings.HasPrefix(line, "Restart time:") })
}

// withoutPeers says that a family has nobody to be told to.
func withoutPeers(peers []protocol, subject string, ps []netip.Prefix) []routers.Finding {
	var orphans []string
	for _, p := range ps {
		carries := func(peer protocol) bool { _, ok := peer.carrying(p); return ok }
		if !slices.ContainsFunc(peers, carries) {
			orphans = append(orphans, p.String())
		}
	}
	if len(orphans) == 0 {
		return nil
	}
	return []routers.Finding{{Severity: routers.Failing, Subject: subject,
		Text:   "there is no peer to give " + few(orphans) + " to",
		WayOut: "configure a BGP or OSPF protocol with a channel of that family, or correct peers"}}
}

// few names the first of many.
func few(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// examinePrefix says what keeps one prefix from its peers although it is in the table. With off it is a
// filter's part to do that.
func (rd reading) examinePrefix(p netip.Prefix, o Options, n *names, off bool) []routers.Finding {
	s := rd.sight(p)
	if text := s.unread(); text != "" {
		return []routers.Finding{{Severity: routers.Failing, Subject: p.String(), Text: "cannot be read: " + text}}
	}
	var all []routers.Finding
	if by, static, hidden := rd.hidden(s); hidden {
		all = append(all, routers.Finding{Severity: routers.Warning, Subject: p.String(),
			Text:   fmt.Sprintf("the static route of %s is hidden by that of %s, and is not what the export filters see", static, by),
			WayOut: fmt.Sprintf("keep %s off the prefix (`import where net != %s;`), or have the filters take its route", by, p)})
	}
	best, is := s.best()
	switch {
	case is && off && len(s.given()) == 0:
		return append(all, routers.Finding{Subject: p.String(), Text: "is in the table, and withheld from every peer, as it is to be"})
	case !is || off || !rd.withdrawable(best, p, o, n):
		return all
	}
	for _, peer := range s.peers {
		if strings.HasPrefix(peer.Detail, rejecting) {
			all = append(all, routers.Finding{Severity: routers.Warning, Subject: p.String(),
				Text: fmt.Sprintf("is in the table and not given to %s: %s", peer.Name, peer.Detail), WayOut: passing(p, o, n) + ", or leave the protocol out of peers"})
		}
	}
	return all
}

// withdrawable says whether a route may be one that the method takes away again: filters that let another one pass
// would announce it for good.
func (rd reading) withdrawable(r route, p netip.Prefix, o Options, n *names) bool {
	from, _ := rd.protocol(r.protocol)
	if o.Method == MethodAddress {
		return from.kind != kindStatic
	}
	switch symbol, worse := n.of(p); o.kind() {
	case MethodProtocol, StyleRoutes:
		return r.protocol == symbol || r.protocol == worse
	case StyleSwitch:
		return from.kind == kindStatic
	}
	return true
}

// passing is how a filter is to let a prefix pass.
func passing(p netip.Prefix, o Options, n *names) string {
	if symbol, _ := n.of(p); o.Method == MethodInclude && (o.Style == StyleList || o.Style == StyleFunction) {
		return "let it pass in the filter where " + symbol + " says so"
	}
	return "let it pass in the filter"
}

// hidden finds a direct route that stands before a static one in the same table.
func (rd reading) hidden(s sight) (by, static string, hidden bool) {
	kinds := map[string]string{}
	for _, p := range rd.protocols {
		kinds[p.name] = p.kind
	}
	for _, d := range s.own {
		for _, r := range s.own {
			if d.best && !r.best && d.table == r.table && kinds[d.protocol] == kindDirect && kinds[r.protocol] == kindStatic {
				return d.protocol, r.protocol, true
			}
		}
	}
	return "", "", false
}
