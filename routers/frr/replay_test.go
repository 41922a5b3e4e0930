package frr

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/frr/vty"
	"vouch/routers/rtnl"
)

// The prefixes of the recordings: p are addresses and network statements, s are static routes.
var (
	p4 = netip.MustParsePrefix("10.53.53.53/32")
	p6 = netip.MustParsePrefix("2001:db8:53::53/128")
	s4 = netip.MustParsePrefix("10.53.54.1/32")
	s6 = netip.MustParsePrefix("2001:db8:54::1/128")

	p4n = netip.MustParsePrefix("10.53.53.0/24")
)

// A replay answers with what real daemons were recorded to say. What was not recorded it does not
// know, as a daemon would say it, and it notes all changes asked for.
type replay struct {
	t       *testing.T
	replies map[string]map[string]vty.Reply // by daemon and command
	failed  map[string]error                // by daemon
	hung    string                          // a daemon
	changes []session

	interfaces bool // zebra knows of interfaces though there is an mgmtd
}

// recording loads files of testdata, each "daemon-state" of 8.4.4, or "10.3/daemon-state", the later ones
// before the earlier.
func recording(t *testing.T, names ...string) *replay {
	t.Helper()
	r := &replay{t: t, replies: map[string]map[string]vty.Reply{}, failed: map[string]error{}}
	for _, name := range names {
		daemon, _, _ := strings.Cut(path.Base(name), "-")
		if r.replies[daemon] == nil {
			r.replies[daemon] = map[string]vty.Reply{}
		}
		for command, reply := range load(t, name) {
			r.replies[daemon][command] = reply
		}
	}
	return r
}

// load reads a recording: "> command", "< status", and the text up to the next command.
func load(t *testing.T, name string) map[string]vty.Reply {
	t.Helper()
	if !strings.Contains(name, "/") {
		name = "8.4.4/" + name
	}
	text, err := os.ReadFile(filepath.Join("testdata", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	replies := map[string]vty.Reply{}
	for _, part := range strings.Split("\n"+string(text), "\n> ")[1:] {
		command, rest, _ := strings.Cut(part, "\n< ")
		status, body, _ := strings.Cut(rest, "\n")
		n, err := strconv.ParseUint(status, 10, 8)
		if err != nil {
			t.Fatalf("%s: %s: %v", name, command, err)
		}
		replies[command] = vty.Reply{Status: uint8(n), Text: body}
	}
	return replies
}

// edit changes what the daemon says to every command that contains part.
func (r *replay) edit(daemon, part string, change func(string) string) *replay {
	for command, reply := range r.replies[daemon] {
		if strings.Contains(command, part) {
			reply.Text = change(reply.Text)
			r.replies[daemon][command] = reply
		}
	}
	return r
}

// fail has a daemon be away.
func (r *replay) fail(daemon string) *replay {
	r.failed[daemon] = fmt.Errorf("/run/frr/%s.vty: %w", daemon, routers.ErrUnavailable)
	return r
}

// hang has a daemon not answer.
func (r *replay) hang(daemon string) *replay {
	r.hung = daemon
	return r
}

func (r *replay) talk(ctx context.Context, s session) ([]vty.Reply, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.daemon == r.hung {
		<-ctx.Done()
		return nil, vty.Silent(s.daemon, time.Second, ctx.Err())
	}
	if err := r.failed[s.daemon]; err != nil {
		return nil, err
	}
	if s.daemon == "zebra" && slices.Equal(s.commands, []string{"interface lo"}) { // it is only asked whether it knows that
		if r.replies["mgmtd"] != nil && !r.interfaces {
			return []vty.Reply{{Status: 2, Text: "% [ZEBRA] Unknown command: interface lo\n"}}, nil
		}
		return []vty.Reply{{}}, nil
	}
	if len(s.enter) > 0 {
		r.changes = append(r.changes, s)
	}
	replies := make([]vty.Reply, len(s.commands))
	for i, c := range s.commands {
		reply, ok := r.replies[s.daemon][c]
		switch {
		case ok:
			replies[i] = reply
		case len(s.enter) == 0:
			replies[i] = vty.Reply{Status: 2, Text: "% Unknown command: " + c + "\n"}
		}
	}
	return replies, nil
}

// router makes a driver of a replay, on a node that has addresses of all prefixes somewhere.
func (r *replay) router(o Options) *Router {
	d := newRouter(o.withDefaults(), r.talk)
	d.networkd = func() networkd { return networkd{} }
	if m, ok := d.method.(network); ok {
		m.addresses = func(context.Context) ([]rtnl.Address, error) {
			return []rtnl.Address{{Prefix: netip.PrefixFrom(p4.Addr(), 24), Interface: "eth0"}, {Prefix: p6, Interface: "lo"}}, nil
		}
		d.method = m
	}
	return d
}

// A kernel plays the addresses of an interface.
type kernel struct {
	stages  map[netip.Prefix]routers.Stage // absent when not there
	err     error
	changes [][]routers.Change
	without string // the daemon that has no socket
	gone    bool   // the interface does not exist
	stuck   bool   // what it is told changes nothing
	here    []rtnl.Address
}

func (k *kernel) observe(_ context.Context, iface string, ps []netip.Prefix) ([]routers.Observation, error) {
	os := make([]routers.Observation, len(ps))
	for i, p := range ps {
		os[i] = routers.Observation{Prefix: p, Stage: max(k.stages[p], routers.Absent)}
		switch {
		case k.err != nil:
			os[i] = routers.Observation{Prefix: p, Detail: k.err.Error()}
		case os[i].Stage == routers.Absent:
			os[i].Detail = fmt.Sprintf("not on interface %q", iface)
		}
	}
	return os, k.err
}

func (k *kernel) change(_ context.Context, _ string, cs []routers.Change) error {
	if len(cs) == 0 || k.stuck {
		return nil
	}
	k.changes = append(k.changes, cs)
	for _, c := range cs {
		k.stages[c.Prefix] = routers.Absent
		if c.Want == routers.Announced {
			k.stages[c.Prefix] = routers.Selected
		}
	}
	return nil
}

// on is a kernel that has these prefixes on the interface.
func on(ps ...netip.Prefix) *kernel {
	k := &kernel{stages: map[netip.Prefix]routers.Stage{}}
	for _, p := range ps {
		k.stages[p] = routers.Selected
	}
	return k
}

// owned has FRR own the addresses of the kernel, whose changes it then asks for.
func (r *Router) owned(k *kernel) *Router {
	a := r.with(k).method.(address)
	r.method = a.ownedBy(owner{a.talk, func() bool { return r.options.configurer("zebra") != "zebra" }, k.observe, func(string) bool { return !k.gone }})
	return r
}

// with has the driver use the kernel.
func (r *Router) with(k *kernel) *Router {
	a := r.method.(address)
	a.kernel, a.change, a.here = k.observe, k.change, func(context.Context) ([]rtnl.Address, error) { return k.here, nil }
	a.absent = func(p netip.Prefix) string {
		if k.without != "" && isIPv6(p) == strings.Contains(k.without, "6") {
			return k.without + " has no socket"
		}
		return ""
	}
	r.method = a
	return r
}
