package bird

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"vouch/routers/bird/ctl"
)

// The kinds of protocols that matter here, as `show protocols` names them.
const (
	kindBGP    = "BGP"
	kindOSPF   = "OSPF"
	kindStatic = "Static"
	kindDirect = "Direct"
)

// A protocol is one of BIRD's, as `show protocols all` tells of it.
type protocol struct {
	name     string
	kind     string
	state    string // up, down, start, stop, flush
	bgpState string // BGP: Established and others
	info     string // why it is not there, where BIRD says so
	channels []channel
	details  []string // all further lines, without their indent
}

// A channel is what connects a protocol to one table. BIRD 1.6 has none: there it stands for the whole
// protocol, without a name.
type channel struct {
	name      string // ipv4, ipv6, …
	state     string // UP, DOWN, …
	table     string
	imports   string // the filter's name, ACCEPT, REJECT or (unnamed)
	export    string // the same
	preferred int    // how many of the table's best routes are from here; -1: not told
}

// parseProtocols reads the reply to `show protocols all`.
func parseProtocols(r ctl.Reply) ([]protocol, error) {
	var all []protocol
	for _, l := range r.Lines {
		switch l.Code {
		case ctl.ProtocolRow:
			p, err := parseProtocolRow(l.Text)
			if err != nil {
				return nil, err
			}
			all = append(all, p)
		case ctl.ProtocolDetail:
			if len(all) == 0 {
				return nil, fmt.Errorf("a protocol's details without its name: %.80q", l.Text)
			}
			all[len(all)-1].add(l.Text)
		}
	}
	for i := range all {
		all[i].settle()
	}
	return all, nil
}

// parseProtocolRow reads "name kind table state since info". A time may be one word or two, as timeformat
// has it.
func parseProtocolRow(text string) (protocol, error) {
	f := strings.Fields(text)
	if len(f) < 4 {
		return protocol{}, fmt.Errorf("not a row of show protocols: %.80q", text)
	}
	p := protocol{name: f[0], kind: f[1], state: f[3]}
	rest := f[min(5, len(f)):]
	if len(rest) > 0 && strings.Count(rest[0], ":") == 2 {
		rest = rest[1:]
	}
	p.info = strings.Join(rest, " ")
	p.channels = []channel{{state: strings.ToUpper(p.state), table: f[2], preferred: -1}} // 1.6, unless channels follow
	return p, nil
}

// add takes a line of details: "  Key:  value", or "  Channel ipv4" with what belongs to it.
func (p *protocol) add(line string) {
	line = strings.TrimSpace(line)
	p.details = append(p.details, line)
	if name, ok := strings.CutPrefix(line, "Channel "); ok {
		p.channels = append(p.channels, channel{name: name, preferred: -1})
		return
	}
	c := &p.channels[len(p.channels)-1]
	key, value, _ := strings.Cut(line, ":")
	value = strings.TrimSpace(value)
	switch key {
	case "BGP state":
		p.bgpState = value
	case "State":
		c.state = value
	case "Table":
		c.table = value
	case "Input filter":
		c.imports = value
	case "Output filter":
		c.export = value
	case "Routes":
		c.preferred = countOf(value, "preferred")
	}
}

// settle keeps the nameless channel only where it tells something, as in 1.6.
func (p *protocol) settle() {
	if p.channels[0].export == "" {
		p.channels = p.channels[1:]
	}
}

// countOf finds "3" in "1 imported, 2 exported, 3 preferred".
func countOf(text, what string) int {
	for part := range strings.SplitSeq(text, ",") {
		if n, ok := strings.CutSuffix(strings.TrimSpace(part), " "+what); ok {
			if count, err := strconv.Atoi(n); err == nil {
				return count
			}
		}
	}
	return -1
}

// carrying gives the channel that a prefix would go through. A BIRD 1.6 has but one family.
func (p protocol) carrying(prefix netip.Prefix) (channel, bool) {
	family := "ipv6"
	if prefix.Addr().Is4() {
		family = "ipv4"
	}
	for _, c := range p.channels {
		if c.name == "" || c.name == family {
			return c, true
		}
	}
	return channel{}, false
}

// learns tells whether the protocol's routes are a neighbour's, so that they are none of this node's own.
func (p protocol) learns() bool {
	switch p.kind {
	case kindBGP, kindOSPF, "RIP", "Babel", "L3VPN":
		return true
	}
	return false
}

// ready tells whether what is exported to the protocol is sent on through c, and otherwise why not. For
// OSPF the neighbours are looked at elsewhere.
func (p protocol) ready(c channel) (bool, string) {
	switch {
	case p.state == "down":
		return false, strings.TrimSpace("it is down " + p.info)
	case p.kind == kindBGP && p.bgpState != "Established":
		return false, "not established (" + strings.TrimSpace(p.bgpState+" "+p.why()) + ")"
	case p.state != "up":
		return false, "its state is " + p.state
	case c.state != "UP":
		return false, fmt.Sprintf("its channel %s is %s", c.name, c.state)
	}
	return true, ""
}

// why is what the row says behind the state of a BGP session, such as "Socket: Connection refused".
func (p protocol) why() string {
	return strings.TrimSpace(strings.TrimPrefix(p.info, p.bgpState))
}
