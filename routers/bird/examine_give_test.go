package bird

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vouch/routers"
	"vouch/routers/lab"
)

// reads waits until what is read of the first prefix is so.
func (p *pair) reads(t *testing.T, what string, so func(routers.Observation) bool) {
	t.Helper()
	sceneWait(t, what, func() error {
		if o := p.observed(t)[0]; !so(o) {
			return fmt.Errorf("%+v", o)
		}
		return nil
	})
}

// told waits until something of that severity is found of the first prefix.
func (p *pair) told(t *testing.T, text string) {
	t.Helper()
	sceneWait(t, text, func() error {
		if all := p.examined(t); !says(all, routers.Failing, four.String(), text) {
			return fmt.Errorf("%s", findings(all))
		}
		return nil
	})
}

func given(o routers.Observation) bool { return o.Stage == routers.Advertised }

// A static protocol that nothing disables is told of while all is well, and once it is too late, on every release.
func TestStaticWithoutSwitch(t *testing.T) {
	for _, r := range lab.BIRDs {
		t.Run(fmt.Sprint(r), func(t *testing.T) {
			t.Parallel()
			p := servingPair(t, r, StyleSwitch)
			p.settle(t, routers.Announced)
			p.findsNothing(t, four.String())
			p.rewriteFour(t, "anycast4 { disabled DNS_OFF;", "anycast4 {")
			p.reads(t, "the prefix to be given", given)
			p.told(t, "is given to core4 by protocol anycast4, which DNS_OFF does not disable: "+p.birds[0].ConfigFile()+" does not say so")
			if err := p.apply(t, changes(routers.Withdrawn)); err == nil || !strings.Contains(err.Error(), "DNS_OFF is 1, which does not disable what gives "+four.String()) {
				t.Errorf("withdrawing: %v", err)
			}
			fatal(t, p.birds[0].Configure(t.Context()))
			p.reads(t, "who has it to be said", func(o routers.Observation) bool {
				return given(o) && o.Detail == "DNS_OFF is 1, and the route of protocol anycast4, which that does not disable, is given to core4"
			})
			p.told(t, "DNS_OFF is 1, and yet it is given to core4 by protocol anycast4")
		})
	}
}

// A protocol that the switch disables, and that somebody enabled by hand, needs no word in bird.conf, on every release.
func TestEnabledByHand(t *testing.T) {
	for _, r := range lab.BIRDs {
		t.Run(fmt.Sprint(r), func(t *testing.T) {
			t.Parallel()
			p := servingPair(t, r, StyleSwitch)
			p.settle(t, routers.Withdrawn)
			_, err := p.birds[0].Birdc(t.Context(), `enable "anycast4"`)
			fatal(t, err)
			p.reads(t, "the prefix to be given", given)
			p.told(t, "is given to core4 by protocol anycast4, which was enabled by hand, or not read since "+p.birds[0].ConfigFile()+" has `disabled DNS_OFF` there")
			fatal(t, p.birds[0].Configure(t.Context()))
			p.reads(t, "the prefix to be gone", func(o routers.Observation) bool { return o.Stage == routers.Absent })
		})
	}
}

// The same of a direct protocol that has the address, for every way but method address.
func TestDirectBesideTheMethod(t *testing.T) {
	for kind, text := range map[string]string{
		StyleSwitch:    "is given to core4 by direct protocol lo4, which DNS_OFF does not disable",
		StyleRoutes:    "is given to core4 by direct protocol lo4, which is not vouch's",
		StyleList:      "is given to core4 by direct protocol lo4, and core4 exports all, whatever PFX4 says",
		MethodProtocol: "is given to core4 by protocol lo4, which vouch does not disable",
	} {
		for _, r := range lab.BIRDs {
			t.Run(fmt.Sprint(kind, "/", r), func(t *testing.T) {
				t.Parallel()
				p := servingPair(t, r, kind)
				p.settle(t, routers.Announced)
				p.findsNothing(t, four.String())
				p.openUp(t, r)
				p.told(t, text)
			})
		}
	}
}

// openUp has the node's BIRD take the addresses of lo and export all it has.
func (p *pair) openUp(t *testing.T, r lab.Release) {
	t.Helper()
	p.rewriteFour(t, "router id", strings.TrimSpace(sceneSyntax("4: protocol direct lo4 { ipv4; interface \"lo\"; }\n", r, "4"))+"\nrouter id")
	p.rewriteFour(t, "export filter out4", "export all")
}

// rewriteFour changes the configuration of the BIRD that has IPv4, and has it read that.
func (p *pair) rewriteFour(t *testing.T, old, text string) {
	t.Helper()
	all := p.birds
	defer func() { p.birds = all }()
	p.birds = all[:1]
	p.rewrite(t, old, text, true)
}

// What is withdrawn by filters is as it is to be, and nothing is advised against that, on every release.
func TestWithheldIsWell(t *testing.T) {
	for _, r := range lab.BIRDs {
		for _, kind := range []string{StyleList, StyleFunction} {
			t.Run(fmt.Sprint(r, "/", kind), func(t *testing.T) {
				t.Parallel()
				p := servingPair(t, r, kind)
				p.settle(t, routers.Withdrawn)
				p.findsNothing(t, four.String())
				p.finds(t, routers.Fine, four.String(), "withheld from every peer, as it is to be")
				p.settle(t, routers.Announced)
				p.rewriteFour(t, "filter out4 {", "filter out4 { reject;")
				sceneWait(t, "it to be withheld", func() error {
					all := p.examined(t)
					for _, f := range all {
						if f.Subject == four.String() && strings.Contains(f.Text, "its export filter out4") && strings.HasPrefix(f.WayOut, "let it pass in the filter where ") {
							return nil
						}
					}
					return fmt.Errorf("%s", findings(all))
				})
			})
		}
	}
}

// A prefix that is announced by a protocol of another name than the one that is ours to disable stands on nothing of ours.
func TestGivenByAnother(t *testing.T) {
	for _, r := range lab.BIRDs {
		t.Run(fmt.Sprint(r), func(t *testing.T) {
			t.Parallel()
			p := servingPair(t, r, MethodProtocol)
			p.settle(t, routers.Announced)
			p.router.SetLabels(map[netip.Prefix]routers.Label{four: {Service: "dns", Symbol: "nosuch"}})
			o := p.observed(t)[0]
			if !given(o) || !o.Broken || o.Detail != "given to core4 by the route of protocol dns, and none of ours is there" {
				t.Errorf("%+v", o)
			}
			if err := p.apply(t, []routers.Change{{Prefix: four, Want: routers.Announced}}); err == nil || !strings.Contains(err.Error(), "no such protocol") {
				t.Errorf("announced by a protocol that is not there: %v", err)
			}
		})
	}
}

// BIRD would not start: that is told with every method.
func TestExamineBrokenConf(t *testing.T) {
	p := servingPair(t, lab.BIRDHost, MethodProtocol)
	p.findsNothing(t, "bird")
	p.rewrite(t, "router id", "nonsense;\nrouter id", false)
	p.finds(t, routers.Warning, "bird ", "would not start with its configuration as it is in the files")
}

// Nothing takes the address, on every release.
func TestExamineAddressTaken(t *testing.T) {
	for _, r := range lab.BIRDs {
		t.Run(fmt.Sprint(r), func(t *testing.T) {
			t.Parallel()
			p := openPair(t, r, MethodAddress)
			p.settle(t, routers.Announced)
			p.findsNothing(t, "")
			p.hindered(t, "")
			p.rewrite(t, `interface "lo";`, `interface "eth0";`, true)
			p.finds(t, routers.Failing, four.String(), "is on lo, and bird has no route of it")
			p.rewrite(t, "protocol direct", "# protocol direct", true)
			p.finds(t, routers.Failing, "bird ", "nothing in it takes IPv4 addresses of lo")
			p.finds(t, routers.Failing, "bird", "nothing in it takes IPv6 addresses of lo")
			p.hindered(t, "nothing in bird takes IPv", both...)
			p.reads(t, "the hint", func(o routers.Observation) bool { return strings.Contains(o.Detail, "is there a direct protocol") })
			if o := p.observed(t)[1]; !strings.HasSuffix(o.Detail, "`ip -6 addr add fe80::1/64 dev lo`, and in the network's configuration") {
				t.Errorf("%+v", o)
			}
		})
	}
}

// Nobody takes in what comes for the prefix.
func TestUndelivered(t *testing.T) {
	p := openPair(t, lab.BIRDHost, StyleSwitch)
	p.finds(t, routers.Warning, four.String(), "is the address of no interface, and what comes for it is dropped here")
	run := func(args ...string) {
		t.Helper()
		if out, err := p.node.Run(t.Context(), append([]string{"ip"}, args...)...); err != nil {
			t.Fatal(out, err)
		}
	}
	run("route", "add", "default", "via", "10.0.1.1")
	p.finds(t, routers.Warning, four.String(), "is sent back by the default route")
	run("route", "add", four.String(), "via", "10.0.1.1") // as to a container
	p.findsNothing(t, four.String())
	run("route", "replace", "blackhole", four.String())
	p.finds(t, routers.Warning, four.String(), "is dropped here")
	run("route", "del", "blackhole", four.String())
	run("route", "add", "local", "10.53.53.0/24", "dev", "lo")
	p.findsNothing(t, four.String())
}

func TestConf(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		fatal(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	own := write("vouch.conf", "define A_OFF = 1; define B_OFF = 1;")
	write("one.inc", "protocol static inc { disabled A_OFF; ipv4; }\n")
	path := write("bird.conf", `include "vouch.conf";
include "*.inc"; # protocol static hidden { }
/* protocol static hidden { } */
template static T { disabled A_OFF; }
protocol static plain { ipv4 { import all; }; route 192.0.2.1/32 blackhole { bgp_med = 1; }; }
protocol static 'on-off' { ipv4; disabled A_OFF; }
protocol static both { disabled A_OFF || M; ipv4; }
protocol static no { disabled no; route 192.0.2.0/24 blackhole; }
protocol static made from T { ipv4; }
protocol static late from T2 { ipv4; }
protocol static { disabled A_OFF; ipv4; }
protocol bgp b { disabled A_OFF; export filter { if B_OFF = 1 then reject; accept; }; }
protocol static inner { ipv4 { import filter { print "x; disabled A_OFF"; accept; }; }; }
`)
	for protocol, want := range map[string]bool{"plain": true, "no": true, "inner": true, "on-off": false, "both": false, "made": false, "late": false, "inc": false,
		"hidden": false, "b": false} {
		c := readConf(path, own)
		delete(c.used, "A_OFF") // of b
		if got := c.heedless(protocol, "A_OFF", ""); got != want {
			t.Errorf("%s: %v, want %v", protocol, got, want)
		}
		if c.heedless(protocol, "B_OFF") {
			t.Errorf("%s: the filter's switch is said to be heeded by nothing", protocol)
		}
	}
	c := readConf(path, own)
	for protocol, want := range map[string]bool{"plain": false, "on-off": true, "both": true, "made": true, "late": false, "inc": true, "none": false} {
		if got := c.heeds(protocol, "A_OFF"); got != want {
			t.Errorf("%s: heeds %v, want %v", protocol, got, want)
		}
	}
	fatal(t, os.Symlink(own, filepath.Join(dir, "link.conf")))
	for other, want := range map[string]bool{own: true, filepath.Join(dir, "x", "..", "vouch.conf"): true, filepath.Join(dir, "link.conf"): true, filepath.Join(dir, "none.conf"): false} {
		if got := readConf(path, other); got.ours != want {
			t.Errorf("%s: included %v, want %v", other, got.ours, want)
		}
	}
	fatal(t, os.Remove(filepath.Join(dir, "one.inc")))
	write("bird.conf", "protocol static plain { ipv4; }\ninclude \"none.conf\";")
	if readConf(path).heedless("plain", "A_OFF") {
		t.Error("known by files that could not all be read")
	}
	write("bird.conf", "protocol static plain { ipv4; }\ninclude \"bird.conf\";")
	if readConf(path).heedless("plain", "A_OFF") {
		t.Error("a file that includes itself")
	}
	if (conf{}).heedless("plain", "A_OFF") {
		t.Error("known by no file")
	}
}
