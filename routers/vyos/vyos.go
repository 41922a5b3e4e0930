// Package vyos drives VyOS: it has a prefix announced by the OSPF or BGP of the FRR in it, or not, and reads how
// far it has come from FRR itself. It was made for VyOS 1.3, 1.4 and 1.5.
//
// A method is the way to announce; OSPF or BGP has to redistribute what it makes:
//
//   - kernel: a blackhole route in the kernel, of a protocol number of its own (`redistribute kernel`). It takes
//     milliseconds and no commit, and is gone after a reboot. Worse: with another metric.
//   - static: `protocols static route P blackhole` in VyOS's configuration (`redistribute static`). A commit takes
//     seconds, can be locked out by others, and can erase a router's configuration with an exit status of 0 when
//     its session is not whole: nothing is committed but what was seen to be only our own change. Worse: with a tag.
package vyos

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	"vouch/routers"
	"vouch/routers/frr"
	"vouch/routers/rtnl"
)

// The words of Options.
const (
	MethodStatic = "static"
	MethodKernel = "kernel"

	ViaConfig = "config" // VyOS's configuration binaries
	ViaVbash  = "vbash"  // a script of vbash with script-template

	ProtocolOSPF = frr.ProtocolOSPF
	ProtocolBGP  = frr.ProtocolBGP
)

// Protocol is the number of the kernel's routes that are ours (rtm_protocol). FRR has 186 to 198 for its own,
// BIRD 12, keepalived 18, babeld 42.
const Protocol = 200

// Metric is that of a kernel route that is not degraded; an IPv6 one has to have one. It is another than zebra's:
// where another node announces the prefix too, zebra has put the route to that one into the kernel, and a table holds
// one route of a prefix and metric. Zebra takes ours for better, whatever its metric, and its own out.
const Metric = 10

// zebraMetric is that of every route that zebra puts into the kernel, of both families (8.4.4).
const zebraMetric = 20

// Options say how to drive VyOS. A field left zero has the default; a word that is none of its constants counts
// as the default too, so whoever loads the configuration refuses it.
type Options struct {
	Method    string // default kernel
	Via       string // method static; default config
	Root      string // where the system is; default /
	SocketDir string // FRR's vty sockets; default run/frr below Root
	Protocol  string // whose table must hold the prefix; default bgp
	MinPeers  int    // bgp: established peers that must be sent the prefix; default 1
	Distance  int    // static: of the route, 1 to 255; default that of VyOS
	Save      bool   // static: save the configuration after each commit. See the README before: it saves everybody's changes
	Degraded  Degraded

	Timeout    time.Duration // of one question to a daemon; default 1s
	Step       time.Duration // of one step of a session that is no commit; default 15s
	LockWait   time.Duration // how long a lock that others hold is waited for; default 60s
	Deadline   time.Duration // how long a commit is waited for. It is never killed; default 3m
	Patience   time.Duration // how long one Apply waits for a commit; default Deadline
	VerifyWait time.Duration // how long FRR may take to have what was committed; default 10s
}

// Degraded says what a degraded prefix gets; what is left zero is not set.
type Degraded struct {
	Tag    uint32 // static: of the route, for the route-map of the redistribution
	Metric uint32 // kernel: of the route; 10 and 20 are taken, and become 11 and 21. BGP makes it the MED, and a route-map can match it
}

// metric is that of a degraded kernel route, 0 when there is none: neither ours nor zebra's.
func (d Degraded) metric() uint32 {
	if d.Metric == Metric || d.Metric == zebraMetric {
		return d.Metric + 1
	}
	return d.Metric
}

func (o Options) withDefaults() Options {
	o.Method = cmp.Or(o.Method, MethodKernel)
	o.Via = cmp.Or(o.Via, ViaConfig)
	o.Root = cmp.Or(o.Root, "/")
	o.SocketDir = cmp.Or(o.SocketDir, filepath.Join(o.Root, "run/frr"))
	o.Protocol = cmp.Or(o.Protocol, ProtocolBGP)
	o.MinPeers = max(o.MinPeers, 1)
	o.Timeout = cmp.Or(o.Timeout, time.Second)
	o.Step = cmp.Or(o.Step, 15*time.Second)
	o.LockWait = cmp.Or(o.LockWait, time.Minute)
	o.Deadline = cmp.Or(o.Deadline, 3*time.Minute)
	o.Patience = cmp.Or(o.Patience, o.Deadline)
	o.VerifyWait = cmp.Or(o.VerifyWait, 10*time.Second)
	return o
}

// lacks says why there is no worse way to announce, with the way out; empty: there is one.
func (o Options) lacks() string {
	switch {
	case o.Method == MethodStatic && o.Degraded.Tag == 0:
		return "set tag in [router.degraded]"
	case o.Method == MethodKernel && o.Protocol == ProtocolOSPF:
		return "ospfd (8.4.4) gives every kernel route the same metric: use method static with tag"
	case o.Method == MethodKernel && o.Degraded.Metric == 0:
		return "set metric in [router.degraded]"
	}
	return ""
}

// tag is that of a degraded route of the method.
func (o Options) tag() uint32 {
	if o.Method == MethodStatic {
		return o.Degraded.Tag
	}
	return 0
}

// leaves are those of a blackhole that method static makes.
func (o Options) leaves() leaves { return leaves{o.Degraded.Tag, o.Distance} }

// source is whose routes of zebra's table the method makes.
func (o Options) source() string {
	if o.Method == MethodStatic {
		return frr.SourceStatic
	}
	return frr.SourceKernel
}

// A method is one way to announce. Its observe gives one Observation for each prefix, in order.
type method interface {
	observe(ctx context.Context, ps []netip.Prefix) ([]routers.Observation, error)
	apply(ctx context.Context, cs []routers.Change) error
	close() error
}

// Router is the driver. It remembers nothing but a commit of its own that still runs.
type Router struct {
	options Options
	source  *frr.Source
	system  system
	method  method
}

var (
	_ routers.Watcher  = (*Router)(nil)
	_ routers.Examiner = (*Router)(nil)
)

// New makes a driver; it runs and connects to nothing yet.
func New(o Options) *Router {
	o = o.withDefaults()
	source := frr.NewSource(frr.Options{Protocol: o.Protocol, SocketDir: o.SocketDir, Vtysh: filepath.Join(o.Root, "usr/bin/vtysh"),
		MinPeers: o.MinPeers, Timeout: o.Timeout, Degraded: frr.Degraded{Tag: o.tag()}}, o.source())
	r := &Router{options: o, source: source, system: system{root: o.Root}}
	if o.Method == MethodStatic {
		r.method = newStatic(o, source, r.system)
	} else {
		r.method = kernel{source, r.system, o.Degraded.metric()}
	}
	return r
}

// Observe reads FRR's tables, and beside them the kernel's, or VyOS's running configuration. Its errors are of
// class routers.ErrUnavailable. It returns soon after ctx ends.
func (r *Router) Observe(ctx context.Context, ps []netip.Prefix) ([]routers.Observation, error) {
	if len(ps) == 0 {
		return nil, nil
	}
	os, err := r.method.observe(ctx, ps)
	for i := range os {
		os[i].Detail = startedByVyOS(os[i].Detail)
	}
	if err != nil {
		err = fmt.Errorf("vyos: %w", inVyOSWords{err})
	}
	return os, err
}

// Apply asks for the changes, withdraws first. With method static all of them are one commit, which takes
// seconds. When ctx ends before it does all goes on, and the error is of class routers.ErrBusy; the next Apply waits
// for it first, and breaks it off when it wants something else and nothing is committed yet. What is withdrawn is taken out of FRR at once, before the commit; while another one
// still runs that is all, so that it can be read, and the error is of class routers.ErrBusy too. The error is of the
// classes of package routers, and holds a routers.PrefixError for each change that failed alone.
func (r *Router) Apply(ctx context.Context, cs []routers.Change) error {
	var able []routers.Change
	var failed []error
	for _, c := range cs {
		if err := r.options.valid(c); err != nil {
			failed = append(failed, &routers.PrefixError{Prefix: c.Prefix, Err: err})
			continue
		}
		able = append(able, c)
	}
	if len(able) > 0 {
		failed = append(failed, r.method.apply(ctx, able))
	}
	if err := routers.Join(failed...); err != nil {
		return fmt.Errorf("vyos: %w", err)
	}
	return nil
}

// valid refuses what would make another command, or another prefix in the table, than was meant.
func (o Options) valid(c routers.Change) error {
	switch p := c.Prefix; {
	case c.Want == routers.Degraded && o.lacks() != "":
		return routers.Errorf(routers.ErrRefused, "%s: there is no worse way to announce it: %s", p, o.lacks())
	case c.Want != routers.Announced && c.Want != routers.Degraded && c.Want != routers.Withdrawn:
		return routers.Errorf(routers.ErrRefused, "%s: no change is called %s", p, c.Want)
	case !p.IsValid(), p != p.Masked(), p.Addr().Is4In6():
		return routers.Errorf(routers.ErrRefused, "%s: not a prefix in its usual form, such as 192.0.2.53/32", p)
	}
	return nil
}

// Watch wakes for changes of the kernel's routes, into which FRR puts the static ones too, see rtnl.Watch; and with
// method static whenever somebody's commit has ended. What else changes within FRR is seen by polling.
func (r *Router) Watch(ctx context.Context, wake func()) error {
	if s, ok := r.method.(*static); ok {
		var looking sync.WaitGroup
		defer looking.Wait()
		looks, end := context.WithCancel(ctx)
		defer end()
		looking.Go(func() { s.watchLock(looks, wake) })
	}
	return rtnl.Watch(ctx, wake)
}

// Goal is Advertised: both methods read a protocol's table.
func (r *Router) Goal() routers.Stage { return routers.Advertised }

// Close waits for a commit that still runs, at most as long as a commit may take: systemd kills what is left of
// a unit, and a commit that is killed leaves FRR and VyOS apart.
func (r *Router) Close() error { return r.method.close() }

// String names the driver, such as "vyos (static via config, bgp)".
func (r *Router) String() string {
	o := r.options
	if o.Method == MethodStatic {
		return fmt.Sprintf("vyos (static via %s, %s)", o.Via, o.Protocol)
	}
	return fmt.Sprintf("vyos (kernel, %s)", o.Protocol)
}
