package vyos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"vouch/routers"
	"vouch/routers/command"
)

// A node is what VyOS's running configuration has of one static route: where that is spelled in more than one way,
// of all of them.
type node struct {
	there     bool
	blackhole bool
	tag       uint32
	strange   bool // its blackhole has what we would not have put there: it is somebody's own
	distance  int
	others    []string // what is not ours: next-hop, description, blackhole tag 5 …
	spelled   []named  // each of its nodes
}

// A named is one of the nodes of a prefix, by its name there: VyOS keeps it as it was typed.
type named struct {
	name string
	node
}

// ours tells whether there is nothing in it but what we make. VyOS 1.4 leaves an empty node behind when its
// last child is deleted.
func (n node) ours() bool { return n.there && len(n.others) == 0 }

// beside tells whether there is anything but a blackhole.
func (n node) beside() bool {
	return slices.ContainsFunc(n.others, func(other string) bool { return !strings.HasPrefix(other, "blackhole ") })
}

// each gives its nodes; of one that was not read from a configuration, itself under its usual name.
func (n node) each(p netip.Prefix) []named {
	if len(n.spelled) > 0 || !n.there {
		return n.spelled
	}
	return []named{{p.String(), n}}
}

// by gives the one of that name.
func (n node) by(name string) node {
	for _, one := range n.spelled {
		if one.name == name {
			return one.node
		}
	}
	return node{}
}

// merge gives the node that all of some are together.
func merge(all []named) node {
	n := node{spelled: all}
	for _, one := range all {
		if one.blackhole && !n.blackhole {
			n.tag, n.distance = one.tag, one.distance
		}
		n.there, n.blackhole, n.strange = true, n.blackhole || one.blackhole, n.strange || one.strange
		n.others = append(n.others, one.others...)
	}
	return n
}

// An active is what VyOS's running configuration has under protocols static.
type active struct {
	nodes  map[netip.Prefix]node
	routes map[string][]string // all children of "route" and "route6", as they are spelled
	static []string            // all children
}

// The nodes of the families' routes.
const (
	route4 = "route"
	route6 = "route6"
)

// routeNode is the node of a family's routes.
func routeNode(p netip.Prefix) string {
	if p.Addr().Is4() {
		return route4
	}
	return route6
}

// A branch is a part of a configuration: what is below a node, by name.
type branch map[string]branch

// names gives what is right below.
func (b branch) names() []string { return slices.Sorted(maps.Keys(b)) }

// readActive reads all static routes of the running configuration in one question, and finds those of the prefixes in
// it, however they are spelled. Own is what our blackholes may have. It needs no session, no lock and no rights.
func (s system) readActive(ctx context.Context, ps []netip.Prefix, own leaves) (active, error) {
	text, err := s.showStatic(ctx)
	if err != nil {
		return active{}, err
	}
	static, err := parseStatic(text)
	if err == nil {
		var a active
		if a, err = makeActive(static, ps, own); err == nil {
			return a, nil
		}
	}
	return active{}, routers.Errorf(routers.ErrUnavailable, "VyOS's configuration: %w", err)
}

// showStatic gives the commands that make what there is under protocols static. Where there is nothing, VyOS fails with
// words of its own.
func (s system) showStatic(ctx context.Context) (string, error) {
	const what = "cli-shell-api showConfig protocols static"
	out, err := s.query(ctx, what, "--show-active-only", "--show-commands", "showConfig", "protocols", "static")
	if err == nil && out.Code != 0 {
		if len(out.Stdout) == 0 && strings.Contains(string(out.Stderr), "both config NULL") {
			return "", nil
		}
		err = exitStatus(what, out)
	}
	return string(out.Stdout), err
}

// parseStatic reads those commands. VyOS names the nodes from the last of those on that were asked for, or from the
// root, and puts quotes around each without regard to what is in it.
func parseStatic(text string) (branch, error) {
	static := branch{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		rest, ok := strings.CutPrefix(line, "set '")
		words := strings.Split(strings.TrimPrefix(strings.TrimSuffix(rest, "'"), "protocols' '"), "' '")
		switch {
		case line == "" || strings.HasPrefix(line, "comment "):
		case !ok || !strings.HasSuffix(rest, "'") || words[0] != "static":
			return nil, fmt.Errorf("not a command for protocols static: %.200q", line)
		default:
			at := static
			for _, word := range words[1:] {
				if at[word] == nil {
					at[word] = branch{}
				}
				at = at[word]
			}
		}
	}
	return static, nil
}

// makeActive finds the prefixes.
func makeActive(static branch, ps []netip.Prefix, own leaves) (active, error) {
	a := active{nodes: map[netip.Prefix]node{}, routes: map[string][]string{}, static: static.names()}
	spelled := map[netip.Prefix][]named{}
	for _, family := range []string{route4, route6} {
		a.routes[family] = static[family].names()
		for _, name := range a.routes[family] {
			p, err := netip.ParsePrefix(name)
			if err != nil || !slices.Contains(ps, p) {
				continue
			}
			n, err := makeNode(static[family][name], own)
			if err != nil {
				return active{}, fmt.Errorf("%s %s: %w", family, name, err)
			}
			spelled[p] = append(spelled[p], named{name, n})
		}
	}
	for _, p := range ps {
		a.nodes[p] = merge(spelled[p])
	}
	return a, nil
}

func makeNode(b branch, own leaves) (node, error) {
	n := node{there: true}
	for _, name := range b.names() {
		if name != "blackhole" {
			n.others = append(n.others, name)
			continue
		}
		n.blackhole = true
		for _, leaf := range b[name].names() {
			text := strings.Join(b[name][leaf].names(), " ")
			value, err := strconv.ParseUint(text, 10, 32)
			switch leaf {
			case "tag":
				n.tag = uint32(value)
			case "distance":
				n.distance = int(value)
			default:
				err = nil
			}
			if err != nil {
				return node{}, fmt.Errorf("its %s is %q, not a number", leaf, text)
			}
			if !own.have(leaf, value) {
				n.strange, n.others = true, append(n.others, strings.TrimSpace("blackhole "+leaf+" "+text))
			}
		}
	}
	return n, nil
}

// Leaves are what a blackhole of ours may have below it.
type leaves struct {
	tag      uint32 // of what is degraded; 0: none
	distance int    // 0: none, and VyOS's own counts
}

func (l leaves) have(leaf string, value uint64) bool {
	switch leaf {
	case "tag":
		return value == 0 || value == uint64(l.tag)
	case "distance":
		return value == uint64(l.distance)
	}
	return false
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

// queryTime bounds one question to VyOS.
const queryTime = 10 * time.Second

// api asks VyOS without a session, and wants it to answer well.
func (s system) api(ctx context.Context, args ...string) (string, error) {
	what := "cli-shell-api " + strings.Join(args[:min(2, len(args))], " ")
	out, err := s.query(ctx, what, args...)
	if err == nil && out.Code != 0 {
		err = exitStatus(what, out)
	}
	return string(out.Stdout), err
}

func exitStatus(what string, out command.Output) error {
	return routers.Errorf(routers.ErrUnavailable, "%s: exit status %d: %s", what, out.Code, reason(text(out)))
}

// query asks VyOS without a session. What is for errors.
func (s system) query(ctx context.Context, what string, args ...string) (command.Output, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	out, err := command.Run(ctx, command.Spec{Path: s.path(cliShellAPI), Args: args, Env: s.environment(), MaxOutput: 4 << 20})
	switch {
	case errors.Is(err, os.ErrNotExist):
		err = routers.Errorf(errors.Join(routers.ErrUnavailable, err), "%s is not there: is this VyOS?", s.path(cliShellAPI))
	case err != nil:
		err = routers.Errorf(errors.Join(routers.ErrUnavailable, err), "%s: %w", what, err)
	case out.Truncated:
		err = routers.Errorf(routers.ErrUnavailable, "%s: too long an answer", what)
	}
	return out, err
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
