package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"vouch/routers/command"
	"vouch/routers/vyos/vyostest/store"
	"vouch/routers/vyos/vyostest/tree"
)

// A plan is what a commit does to FRR.
type plan struct {
	Style    string
	Turn     int64    // grows from commit to commit
	Touched  bool     // something changed that has this style make FRR's routes anew
	Del, Add []string // the routes that go, and those that come, as FRR's configuration has them
	All      []string // every static route of the new configuration
	NoBGP    bool     // protocols bgp goes
	BGP      bool     // it is there then

	Before  time.Duration // until FRR is touched
	After   time.Duration // from then to the end
	Skip    bool          // FRR is not touched at all
	Down    bool          // staticd is away
	Reason  []string      // what the script refuses with
	Refused bool
	Kill    int // the group that is killed after FRR was changed
}

// routes gives the lines of FRR's configuration that the static routes of a tree amount to.
func routes(t tree.Tree, null0 bool) []string {
	var lines []string
	for _, family := range [][2]string{{"route", "ip"}, {"route6", "ipv6"}} {
		at := "protocols static " + family[0]
		for _, p := range t.Children(at) {
			lines = append(lines, ways(t, at+" "+p, family[1]+" route "+p+" ", null0)...)
		}
	}
	return lines
}

// ways gives the lines of one prefix.
func ways(t tree.Tree, at, line string, null0 bool) []string {
	var lines []string
	if b := at + " blackhole"; t[b] {
		word := "blackhole"
		if null0 {
			word = "Null0"
		}
		tag, distance := t.Children(b+" tag"), t.Children(b+" distance")
		if len(tag) > 0 {
			word += " tag " + tag[0]
		}
		lines = append(lines, line+strings.Join(append([]string{word}, distance...), " "))
	}
	for _, hop := range t.Children(at + " next-hop") {
		distance := t.Children(at + " next-hop " + hop + " distance")
		lines = append(lines, line+strings.Join(append([]string{hop}, distance...), " "))
	}
	return lines
}

// rendered are the parts of the configuration that are made FRR's as a whole.
var rendered = map[string][]string{
	store.RerenderStatic: {"protocols static"},
	store.RerenderLate:   {"protocols", "policy"},
}

// makePlan compares two configurations.
func makePlan(set store.Settings, active, work tree.Tree) plan {
	before, after := routes(active, set.Null0), routes(work, set.Null0)
	p := plan{Style: set.Style, All: after, Before: set.Delay * 3 / 4, After: set.Delay / 4}
	for _, at := range rendered[set.Style] {
		p.Touched = p.Touched || len(tree.Diff(active.Below(at), work.Below(at))) > 0
	}
	p.BGP = work["protocols bgp"]
	p.NoBGP = active["protocols bgp"] && !p.BGP
	p.Del = slices.DeleteFunc(slices.Clone(before), func(l string) bool { return slices.Contains(after, l) })
	p.Add = slices.DeleteFunc(slices.Clone(after), func(l string) bool { return slices.Contains(before, l) })
	return p
}

// apply changes FRR. Its error is what vtysh said when it could not reach the daemon.
func (c *call) apply(p plan) error {
	if p.NoBGP {
		if as := c.bgp(); as != "" {
			if _, err := c.vtysh("bgpd", "configure terminal", "no "+as); err != nil {
				return err
			}
		}
	}
	if p.Style == store.Incremental {
		return c.increment(p)
	}
	if !p.Touched {
		return nil
	}
	if p.Style == store.RerenderLate {
		if err := c.reload(p); err != nil {
			return err
		}
	}
	return c.rerender(p)
}

// inTurn has FRR changed by one commit after another, as by the one daemon that does it in the style that answers first:
// of what comes after a later one nothing is done, which made all routes anew.
func (c *call) inTurn(p plan) error {
	if p.Style != store.RerenderLate {
		return c.apply(p)
	}
	file, err := os.OpenFile(c.Path(store.Turn), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	var last int64
	if _, err := fmt.Fscan(file, &last); err == nil && last > p.Turn {
		return nil
	}
	if _, err := file.WriteAt(fmt.Append(nil, p.Turn), 0); err != nil {
		return err
	}
	return c.apply(p)
}

// bgp gives the line that begins FRR's own BGP.
func (c *call) bgp() string {
	text, _ := c.vtysh("bgpd", "show running-config")
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "router bgp") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// increment has a vtysh for each route. What FRR says of a route that it does not have is passed on, and is
// no failure.
func (c *call) increment(p plan) error {
	for _, l := range p.Del {
		text, err := c.vtysh("staticd", "configure terminal", "no "+l)
		if err != nil {
			return err
		}
		fmt.Print(text)
	}
	for _, l := range p.Add {
		if _, err := c.vtysh("staticd", "configure terminal", l); err != nil {
			return err
		}
	}
	return nil
}

// rerender makes FRR's static routes those of the configuration, whoever made the others.
func (c *call) rerender(p plan) error {
	text, err := c.vtysh("staticd", "show running-config")
	if err != nil {
		return err
	}
	commands := []string{"configure terminal"}
	var there []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "ip route ") && !strings.HasPrefix(line, "ipv6 route ") {
			continue
		}
		if there = append(there, line); !slices.Contains(p.All, line) {
			commands = append(commands, "no "+line)
		}
	}
	for _, l := range p.All {
		if !slices.Contains(there, l) {
			commands = append(commands, l)
		}
	}
	if len(commands) == 1 {
		return nil
	}
	_, err = c.vtysh("staticd", commands...)
	return err
}

// vtysh runs FRR's own against one daemon, or all for "". A refused command is no error: only a daemon that is away.
func (c *call) vtysh(daemon string, commands ...string) (string, error) {
	args := append(slices.Clone(c.Settings.Vtysh[1:]), "--vty_socket", c.SocketDir)
	if daemon != "" {
		args = append(args, "-d", daemon)
	}
	for _, l := range commands {
		args = append(args, "-c", l)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := command.Run(ctx, command.Spec{Path: c.Settings.Vtysh[0], Args: args, MaxOutput: 16 << 20})
	said := string(out.Stdout) + string(out.Stderr)
	switch {
	case err != nil:
		return said, err
	case strings.Contains(said, "failed to connect"), strings.Contains(said, "is not running"):
		return said, fmt.Errorf("%s", strings.TrimSpace(said))
	}
	return string(out.Stdout), nil
}
