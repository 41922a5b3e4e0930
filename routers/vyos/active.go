package vyos

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"vouch/routers"
)

// A node is what VyOS's running configuration has of one static route.
type node struct {
	there     bool
	blackhole bool
	tag       uint32 // this and distance are read of those alone that were to be looked into
	distance  int
	others    []string // children that are not ours: next-hop, description …
}

// ours tells whether there is nothing in it but what we make. VyOS 1.4 leaves an empty node behind when its
// last child is deleted.
func (n node) ours() bool { return n.there && len(n.others) == 0 }

// An active is what VyOS's running configuration has under protocols static, as far as was asked for.
type active struct {
	nodes  map[netip.Prefix]node
	routes map[string][]string // all children of "route" and "route6"
}

// routeNode is the node of a family's routes.
func routeNode(p netip.Prefix) string {
	if p.Addr().Is4() {
		return "route"
	}
	return "route6"
}

// readActive lists the families that there are prefixes of, and the nodes of the prefixes, and looks into the
// blackholes of those that deep says yes to. It needs no session, no lock and no rights.
func (s system) readActive(ctx context.Context, ps []netip.Prefix, deep func(netip.Prefix) bool) (active, error) {
	a := active{nodes: map[netip.Prefix]node{}, routes: map[string][]string{}}
	for _, family := range []string{"route", "route6"} {
		if !slices.ContainsFunc(ps, func(p netip.Prefix) bool { return routeNode(p) == family }) {
			continue
		}
		names, err := s.children(ctx, "protocols", "static", family)
		if err != nil {
			return active{}, err
		}
		a.routes[family] = names
	}
	for _, p := range ps {
		if !slices.Contains(a.routes[routeNode(p)], p.String()) {
			a.nodes[p] = node{}
			continue
		}
		n, err := s.readNode(ctx, p, deep(p))
		if err != nil {
			return active{}, err
		}
		a.nodes[p] = n
	}
	return a, nil
}

func (s system) readNode(ctx context.Context, p netip.Prefix, deep bool) (node, error) {
	n := node{there: true}
	at := []string{"protocols", "static", routeNode(p), p.String()}
	names, err := s.children(ctx, at...)
	if err != nil {
		return node{}, err
	}
	for _, name := range names {
		if name == "blackhole" {
			n.blackhole = true
		} else {
			n.others = append(n.others, name)
		}
	}
	if !n.blackhole || !deep {
		return n, nil
	}
	at = append(at, "blackhole")
	if names, err = s.children(ctx, at...); err != nil {
		return node{}, err
	}
	for _, name := range names {
		text, err := s.api(ctx, append([]string{"returnActiveValue"}, append(slices.Clone(at), name)...)...)
		if err != nil {
			return node{}, err
		}
		value, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(text), "'"), 10, 32)
		if err != nil {
			return node{}, routers.Errorf(routers.ErrUnavailable, "the %s of %s in VyOS's configuration is %q, not a number", name, p, text)
		}
		switch name {
		case "tag":
			n.tag = uint32(value)
		case "distance":
			n.distance = int(value)
		default:
			n.others = append(n.others, "blackhole "+name)
		}
	}
	return n, nil
}

// children lists the nodes below a path of the running configuration.
func (s system) children(ctx context.Context, path ...string) ([]string, error) {
	text, err := s.api(ctx, append([]string{"listActiveNodes"}, path...)...)
	if err != nil {
		return nil, err
	}
	names, err := unquote(text)
	if err != nil {
		return nil, routers.Errorf(routers.ErrUnavailable, "listActiveNodes %s: %w", strings.Join(path, " "), err)
	}
	return names, nil
}

// unquote parts words as a shell would that are quoted with ' or not at all.
func unquote(text string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord, quoted := false, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\'':
			inWord, quoted = true, !quoted
		case quoted:
			word.WriteByte(c)
		case c == '\\' && i+1 < len(text):
			i++
			inWord = true
			word.WriteByte(text[i])
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		default:
			inWord = true
			word.WriteByte(c)
		}
	}
	if quoted {
		return nil, fmt.Errorf("a quote has no end: %q", text)
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}
