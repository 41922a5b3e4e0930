package contrib

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/bird/ctl"
	"vouch/routers/bird/include"
	"vouch/routers/lab"
)

// A birdSnippet is what is to be known of one beside its text: how vouch announces with it, and what a degraded
// route has.
type birdSnippet struct {
	style  string // of the file; empty: there is none
	symbol string
	worse  string
	mark   string // what a degraded route has when it leaves; empty: there is no such way
}

const (
	longer = `65001 65001`
	dearer = `20000`
	marked = `65001,666`
)

var birdSnippets = map[string]birdSnippet{
	"switch":       {include.Switch, "RESOLVER_OFF", "RESOLVER_DEGRADED_OFF", longer},
	"switch-ospf":  {include.Switch, "RESOLVER_OFF", "RESOLVER_DEGRADED_OFF", dearer},
	"routes":       {include.Routes, "vouch%d", "", marked},
	"list":         {include.List, "ANYCAST_PREFIXES%s", "ANYCAST_DEGRADED%s", longer},
	"function":     {include.Function, "match_route", "match_degraded", longer},
	"protocol":     {"", "resolver%d", "resolver%d_degraded", longer},
	"address":      {},
	"address-ospf": {},
}

var birdPrefixes = map[int]string{4: "192.0.2.53/32", 6: "2001:db8:53::53/128"}

// decoys are in each configuration beside the service's own route, where the filter has to stop them.
var birdDecoys = map[int]string{4: "192.0.2.99/32", 6: "2001:db8:53::99/128"}

// TestBIRD: every release takes the snippets made for it, and the filter to the neighbours lets the service's
// prefix pass as vouch wants it, and nothing else ever.
func TestBIRD(t *testing.T) {
	for _, release := range lab.BIRDs {
		dir := "bird"
		if release.Split() {
			dir = "bird/bird1"
		}
		for name, s := range birdSnippets {
			t.Run(release.String()+"/"+name, func(t *testing.T) {
				t.Parallel()
				net := lab.Open(t, release)
				for _, v := range []int{4, 6} {
					b := &birdNode{birdSnippet: s, name: name, v: v}
					b.start(t, net, release, dir)
					b.test(t)
				}
			})
		}
	}
}

func TestEveryBIRDSnippetIsTested(t *testing.T) {
	for _, f := range append(files(t, "bird/*.conf"), files(t, "bird/bird1/*.conf")...) {
		name := strings.TrimSuffix(filepath.Base(f), ".conf")
		if _, there := birdSnippets[strings.TrimSuffix(name, "6")]; !there {
			t.Errorf("%s is not tested", f)
		}
	}
	for name := range birdSnippets {
		if !exists("bird/"+name+".conf") || !exists("bird/bird1/"+name+"6.conf") {
			t.Errorf("%s is not there, or not for BIRD 1.6", name)
		}
	}
}

// A birdNode is a node with one BIRD, of which one family is looked at.
type birdNode struct {
	birdSnippet
	name string
	v    int
	node *lab.Node
	bird *lab.BIRD
	ver  ctl.Version
}

func (b *birdNode) start(t *testing.T, net *lab.Net, release lab.Release, dir string) {
	t.Helper()
	node, err := net.Node(fmt.Sprintf("node%d", b.v))
	if err != nil {
		t.Fatal(err)
	}
	b.node = node
	version, err := release.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &b.ver.Major, &b.ver.Minor, &b.ver.Patch); err != nil {
		t.Fatalf("%s: %v", version, err)
	}
	for _, a := range []string{birdDecoys[4], birdDecoys[6], "fe80::53/128"} {
		if err := node.Address(t.Context(), "add", a, "lo"); err != nil {
			t.Fatal(err)
		}
	}
	file, start := b.name+".conf", node.BIRD
	if release.Split() && b.v == 6 {
		file, start = b.name+"6.conf", node.BIRD6
	}
	b.file(t, routers.Withdrawn)
	text := read(t, filepath.Join(dir, file))
	if b.style != "" && !strings.Contains(text, `include "/var/lib/vouch/vouch`) {
		t.Fatalf("%s includes nothing", file)
	}
	text = regexp.MustCompile(`/var/lib/vouch/vouch6?\.conf`).ReplaceAllString(text, b.includeFile())
	for v, p := range birdPrefixes { // a second route beside the service's own
		text = strings.ReplaceAll(text, "\troute "+p+" blackhole;", "\troute "+p+" blackhole;\n\troute "+birdDecoys[v]+" blackhole;")
	}
	if b.bird, err = start(t.Context(), release, text); err != nil {
		t.Fatal(err)
	}
}

func (b *birdNode) includeFile() string { return filepath.Join(b.node.Dir(), "vouch.conf") }

// file writes the file that the snippet includes, as vouch does.
func (b *birdNode) file(t *testing.T, want routers.Want) {
	t.Helper()
	if b.style == "" {
		return
	}
	var es []include.Entry
	for v, p := range birdPrefixes {
		if b.ver.Major == 1 && v != b.v {
			continue
		}
		es = append(es, include.Entry{Prefix: netip.MustParsePrefix(p), Want: want, Symbol: symbol(b.symbol, v), Worse: symbol(b.worse, v)})
	}
	format := include.Format{Style: b.style, Version: b.ver, Attributes: include.Attributes{Community: []string{"65001:666"}}}
	write(t, b.includeFile(), string(include.Render(format, es)))
}

// symbol puts the family into a symbol: 4 or 6, or nothing or 6.
func symbol(pattern string, v int) string {
	switch {
	case strings.Contains(pattern, "%d"):
		return fmt.Sprintf(pattern, v)
	case strings.Contains(pattern, "%s"):
		return fmt.Sprintf(pattern, map[int]string{6: "6"}[v])
	}
	return pattern
}

// want does what vouch does to have the service so.
func (b *birdNode) want(t *testing.T, want routers.Want) {
	t.Helper()
	var err error
	ctx := t.Context()
	switch {
	case b.style != "":
		b.file(t, want)
		err = b.bird.Configure(ctx)
	case b.symbol != "":
		for name, on := range map[string]bool{symbol(b.symbol, b.v): want == routers.Announced, symbol(b.worse, b.v): want == routers.Degraded} {
			if _, e := b.bird.Show(ctx, map[bool]string{true: "enable ", false: "disable "}[on]+name); e != nil {
				err = e
			}
		}
	case want == routers.Announced:
		err = b.node.Address(ctx, "add", birdPrefixes[b.v], "lo")
	default:
		err = b.node.Address(ctx, "del", birdPrefixes[b.v], "lo")
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (b *birdNode) test(t *testing.T) {
	t.Helper()
	b.passes(t, "at first", "", "")
	b.want(t, routers.Announced)
	b.passes(t, "announced", birdPrefixes[b.v], "")
	// BIRD 1.6 has a path to prepend to in a real session only: there routers/routertest sees it arrive.
	if b.mark != "" && (b.ver.Major > 1 || b.mark != longer) {
		b.want(t, routers.Degraded)
		b.passes(t, "degraded", birdPrefixes[b.v], b.mark)
	}
	b.want(t, routers.Withdrawn)
	b.passes(t, "withdrawn", "", "")
}

// passes waits until this is what the filter lets pass, with this in it.
func (b *birdNode) passes(t *testing.T, what, prefix, mark string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var want []string
	if prefix != "" {
		want = []string{prefix}
	}
	err := lab.Wait(ctx, fmt.Sprintf("IPv%d, %s: %v to pass, with %q", b.v, what, want, mark), 10*time.Millisecond, func() (bool, error) {
		got, text, err := b.leaving(ctx)
		return err == nil && slices.Equal(got, want) && strings.Contains(text, mark), fmt.Errorf("%v: %s (%v)", got, text, err)
	})
	if err != nil {
		t.Fatal(err)
	}
}

var (
	routeRow = regexp.MustCompile(`(?m)^(?:1007-| )(?:IPv4 |IPv6 )?([0-9a-f:.]+/[0-9]+)\s`)
	stubRow  = regexp.MustCompile(`(?m)(?:stubnet|stub|prefix) ([0-9a-f:.]+/[0-9]+)`)
)

// leaving is what the filter to the neighbours lets pass. With address-ospf there is none: it is what OSPF has of
// lo then, but for the decoys, which it announces too, as the snippet says.
func (b *birdNode) leaving(ctx context.Context) (prefixes []string, text string, err error) {
	row := routeRow
	if b.name == "address-ospf" {
		row = stubRow
		text, err = b.bird.Show(ctx, fmt.Sprintf("show ospf state all core%d", b.v))
	} else {
		text, err = b.bird.Show(ctx, fmt.Sprintf("show route filter anycast%d_out all", b.v))
	}
	for _, m := range row.FindAllStringSubmatch(text, -1) {
		if b.name != "address-ospf" || m[1] != birdDecoys[b.v] {
			prefixes = append(prefixes, m[1])
		}
	}
	slices.Sort(prefixes)
	return slices.Compact(prefixes), text, err
}
