package frr

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"vouch/routers"
	"vouch/routers/rtnl"
)

// network is the method of BGP network statements.
type network struct {
	talk      talker
	table     view
	addresses func(ctx context.Context) ([]rtnl.Address, error)
	routeMap  string // of a degraded prefix; empty: there is no worse way
}

// A bgpConfig is what concerns the method in bgpd's configuration as it runs.
type bgpConfig struct {
	as            string                    // of the default instance; empty: there is none
	instances     int                       // with those of VRFs and views
	statements    map[netip.Prefix]string   // network statements of the default instance, with their options
	routeMaps     map[string]bool           // that there are
	redistribute  map[string]redistribution // by family
	noImportCheck bool
}

func (n network) config(ctx context.Context) (bgpConfig, error) {
	text, err := running(ctx, n.talk, "bgpd")
	if err != nil {
		return bgpConfig{}, err
	}
	c := parseBGPConfig(text)
	if c.as == "" {
		return c, fmt.Errorf("bgpd: %w: there is no router bgp", errNotConfigured)
	}
	return c, nil
}

// parseBGPConfig reads a running configuration. A block ends where a line is not indented.
func parseBGPConfig(text string) bgpConfig {
	c := bgpConfig{statements: map[netip.Prefix]string{}, routeMaps: map[string]bool{}, redistribute: map[string]redistribution{"ipv4": {}, "ipv6": {}}}
	inside, unicast, afi := false, true, "ipv4"
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case line[0] != ' ':
			inside = false
			if len(words) >= 2 && words[0] == "route-map" {
				c.routeMaps[words[1]] = true
			}
			if len(words) >= 3 && words[0] == "router" && words[1] == "bgp" {
				c.instances++
				if inside = !slices.Contains(words, "vrf") && !slices.Contains(words, "view"); inside {
					c.as, unicast, afi = words[2], true, "ipv4"
				}
			}
		case !inside:
		case words[0] == "address-family" && len(words) >= 2:
			unicast, afi = len(words) == 3 && words[2] == "unicast", words[1]
		case words[0] == "exit-address-family":
			unicast, afi = true, "ipv4"
		case words[0] == "no" && strings.Join(words, " ") == "no bgp network import-check":
			c.noImportCheck = true
		case words[0] == "redistribute" && len(words) >= 2 && unicast:
			c.redistribute[afi].add(words)
		case words[0] == "network" && len(words) >= 2 && unicast:
			if p, err := netip.ParsePrefix(words[1]); err == nil {
				c.statements[p.Masked()] = strings.Join(words[2:], " ")
			}
		}
	}
	return c
}

func (n network) observe(ctx context.Context, ps []netip.Prefix) ([]routers.Observation, error) {
	sights, err := n.table(ctx, ps)
	config, cerr := bgpConfig{}, err
	if err == nil {
		config, cerr = n.config(ctx)
	}
	here, herr := n.addresses(ctx)
	os := make([]routers.Observation, len(ps))
	for i, p := range ps {
		options, stated := config.statements[p]
		os[i] = n.judge(p, sights[p], stated, options, cerr)
		if os[i].Stage >= routers.Selected {
			os[i].Detail = join(os[i].Detail, home(p, here, herr))
		}
	}
	return os, cerr
}

// home says that the node has no address of a prefix that it announces: without bgp network import-check
// nothing but the statement is needed for that. It may be meant so, as on a node that only forwards.
func home(p netip.Prefix, here []rtnl.Address, unread error) string {
	usable := func(a rtnl.Address) bool { return p.Contains(a.Prefix.Addr()) && a.Usable() }
	switch {
	case unread != nil:
		return "whether there is an address of it on this node cannot be read: " + unread.Error()
	case !slices.ContainsFunc(here, usable):
		return "no address of it on this node"
	}
	return ""
}

// judge joins what the table and the configuration say. A statement may have no path: when its route-map
// denies it, or does not exist.
func (n network) judge(p netip.Prefix, s sight, stated bool, options string, configErr error) routers.Observation {
	o := routers.Observation{Prefix: p, Stage: s.stage, Peers: s.peers, Detail: s.detail}
	o.Degraded = stated && n.worse(options)
	switch {
	case s.stage == routers.Absent && configErr != nil:
		o.Stage, o.Detail = routers.Unknown, "no path, but the configuration cannot be read: "+configErr.Error()
	case s.stage == routers.Absent && stated:
		o.Stage, o.Detail = routers.Configured, "there is a network statement, but no path for it"
	}
	if stated && options != "" && !n.worse(options) {
		o.Detail = join(o.Detail, fmt.Sprintf("the statement has options (%s), which a withdrawal loses", options))
	}
	return o
}

// worse tells whether a statement's options are those of a degraded prefix.
func (n network) worse(options string) bool {
	return n.routeMap != "" && options == "route-map "+n.routeMap
}

// join puts two details together.
func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// apply reads the statements first, since to remove one that is not there is refused. What a plain
// statement is there for already is entered again: a bgpd was seen to forget what it had been told. A
// statement entered with a route-map, or without, takes the place of the one before: the prefix is
// announced all the while (8.4.4, 10.3).
func (n network) apply(ctx context.Context, cs []routers.Change) error {
	c, err := n.config(ctx)
	if err != nil {
		return err
	}
	cs, err = n.able(c, cs)
	for _, s := range n.plan(c, cs) {
		err = routers.Join(err, tell(ctx, n.talk, s))
		if ctx.Err() != nil {
			break
		}
	}
	return err
}

// able leaves out what cannot be degraded: with a route-map that does not exist bgpd takes the path away.
func (n network) able(c bgpConfig, cs []routers.Change) ([]routers.Change, error) {
	var able []routers.Change
	var refused []error
	for _, change := range cs {
		options := c.statements[change.Prefix]
		switch {
		case change.Want != routers.Degraded:
		case !c.routeMaps[n.routeMap]:
			refused = append(refused, routers.Errorf(routers.ErrRefused, "%s: not degraded, as there is no route-map %s in bgpd, and its path would be lost: make one, such as `route-map %[2]s permit 10`", change.Prefix, n.routeMap))
			continue
		case options != "" && !n.worse(options):
			refused = append(refused, routers.Errorf(routers.ErrRefused, "%s: not degraded, as its network statement has options that are not ours and would be lost (%s): remove them, or the statement", change.Prefix, options))
			continue
		}
		able = append(able, change)
	}
	return able, routers.Join(refused...)
}

// plan gives the sessions that make the changes, withdraws first: one for each family of each.
func (n network) plan(c bgpConfig, cs []routers.Change) []session {
	router := "router bgp"
	if c.instances > 1 { // then FRR wants to be told which
		router += " " + c.as
	}
	var sessions []session
	for _, want := range []routers.Want{routers.Withdrawn, routers.Degraded, routers.Announced} {
		for _, afi := range []string{"ipv4", "ipv6"} {
			s := session{daemon: "bgpd", enter: []string{"configure terminal", router, "address-family " + afi + " unicast"}}
			for _, change := range cs {
				if change.Want == want && change.Prefix.Addr().Is4() == (afi == "ipv4") {
					s.commands = append(s.commands, n.command(c, change)...)
				}
			}
			if len(s.commands) > 0 {
				sessions = append(sessions, s)
			}
		}
	}
	return sessions
}

// command is the command of one change, or none: for what is not there, and for a statement with options
// of the operator's, which entering it again would lose.
func (n network) command(c bgpConfig, change routers.Change) []string {
	options, stated := c.statements[change.Prefix]
	switch {
	case change.Want == routers.Withdrawn && stated:
		return []string{"no network " + change.Prefix.String()}
	case change.Want == routers.Degraded:
		return []string{"network " + change.Prefix.String() + " route-map " + n.routeMap}
	case change.Want == routers.Announced && (options == "" || n.worse(options)):
		return []string{"network " + change.Prefix.String()}
	}
	return nil
}
