package frr

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"vouch/routers"
)

// owner changes addresses in FRR's own running configuration of an interface, and reads them there beside
// the kernel. Zebra puts there what is added and takes away what is removed, mgmtd (10.3) a few
// milliseconds after its answer. It was seen to remove only what it had been told of: of an address that
// the kernel alone knows, as after a restart of FRR, `no ip address` takes nothing away (status 13 in
// 8.4.4, 0 in 10.3).
type owner struct {
	talk   talker
	mgmtd  func() bool // there is one
	kernel func(ctx context.Context, iface string, ps []netip.Prefix) ([]routers.Observation, error)
	exists func(iface string) bool
}

// ownedBy has the addresses be FRR's.
func (a address) ownedBy(w owner) address {
	a.kernel, a.change = w.observe, w.change
	return a
}

func interfaceExists(name string) bool {
	_, err := net.InterfaceByName(name)
	return err == nil
}

// observe reads the kernel and FRR's configuration. An address that only the configuration has is
// Configured.
func (w owner) observe(ctx context.Context, iface string, ps []netip.Prefix) ([]routers.Observation, error) {
	var os []routers.Observation
	var text string
	var err, unread error
	abreast(
		func() { text, unread = w.running(ctx) },
		func() { os, err = w.kernel(ctx, iface, ps) },
	)
	stated := parseStated(text, iface)
	for i, o := range os {
		os[i] = judgeOwned(o, iface, stated[o.Prefix], unread)
	}
	return os, routers.Join(err, unread)
}

// running reads the configurations that the addresses may be in, mgmtd's and zebra's. With an mgmtd it is
// enough when that can be read: on 10.3 it has them all.
func (w owner) running(ctx context.Context) (string, error) {
	if !w.mgmtd() {
		return running(ctx, w.talk, "zebra")
	}
	var first, second string
	var err error
	abreast(
		func() { second, _ = running(ctx, w.talk, "zebra") },
		func() { first, err = running(ctx, w.talk, mgmtd) },
	)
	return first + second, err
}

// taker is the daemon that takes addresses. Which release gave them to mgmtd is not known here, 9.0 did not
// yet, so zebra is asked whether it still knows of interfaces: 10.3 does not (status 2). To be asked for lo,
// which is always there, changes nothing.
func (w owner) taker(ctx context.Context) string {
	if !w.mgmtd() {
		return "zebra"
	}
	const question = "interface lo"
	replies, err := w.talk(ctx, session{daemon: "zebra", enter: []string{"configure terminal"}, commands: []string{question}})
	if err == nil && len(replies) == 1 && replies[0].Refused(question) == nil {
		return "zebra"
	}
	return mgmtd
}

func judgeOwned(o routers.Observation, iface string, stated bool, unread error) routers.Observation {
	switch {
	case o.Stage == routers.Unknown:
	case unread != nil:
		o.Detail = join(o.Detail, "FRR's configuration cannot be read: "+unread.Error())
	case stated && o.Stage == routers.Absent:
		o.Stage, o.Detail = routers.Configured, join("FRR's configuration has it on "+iface+", but the kernel does not", o.Detail)
	case !stated && o.Stage > routers.Absent:
		o.Detail = join(o.Detail, "the address is the kernel's alone, as when FRR was restarted or somebody else put it there: FRR takes it over when it is withdrawn")
	}
	return o
}

// change tells the daemon what is not so yet. An interface that does not exist gets no configuration: FRR
// would take it, and answer that all is well.
func (w owner) change(ctx context.Context, iface string, cs []routers.Change) error {
	if len(cs) == 0 {
		return nil
	}
	cs, refused := hosts(cs, iface)
	if !w.exists(iface) {
		var absent error
		cs, absent = without(cs, routers.Announced, routers.ErrUnavailable, fmt.Sprintf("interface %q does not exist (yet)", iface))
		refused = routers.Join(refused, absent)
	}
	text, unread := w.running(ctx)
	stages := map[netip.Prefix]routers.Stage{}
	os, err := w.kernel(ctx, iface, prefixes(cs))
	for _, o := range os {
		stages[o.Prefix] = o.Stage
	}
	stated := parseStated(text, iface)
	enter := []string{"configure terminal", "interface " + iface}
	lost := session{daemon: w.taker(ctx), enter: enter, bulk: true}
	q := lost
	for _, want := range []routers.Want{routers.Withdrawn, routers.Announced} {
		for _, c := range cs {
			if stage := stages[c.Prefix]; c.Want == want {
				if stated[c.Prefix] && stage == routers.Absent {
					lost.commands = append(lost.commands, remove(c.Prefix))
				}
				q.commands = append(q.commands, ownedCommands(c, stated[c.Prefix], unread == nil, stage)...)
			}
		}
	}
	return routers.Join(refused, unread, err, w.forget(ctx, lost), tell(ctx, w.talk, q))
}

// forget has FRR forget addresses that were taken away behind its back. 10.3 takes them for there when told
// of them again; 8.4.4 forgets them, and says that it refuses to.
func (w owner) forget(ctx context.Context, lost session) error {
	if err := tell(ctx, w.talk, lost); !errors.Is(err, routers.ErrRefused) {
		return err
	}
	return nil
}

// remove takes an address from the interface.
func remove(p netip.Prefix) string { return "no " + place(p) }

// place has an address on the interface.
func place(p netip.Prefix) string { return fmt.Sprintf("%s address %s", family(p), p) }

// ownedCommands gives the commands of one change, beside those that forget. A withdraw is asked for also when
// the configuration cannot be read, but then nothing is taken over: what is not there would be announced by
// it.
func ownedCommands(c routers.Change, stated, known bool, stage routers.Stage) []string {
	there := stage > routers.Absent
	switch {
	case c.Want == routers.Withdrawn && known && !stated && there: // FRR removes only what it has been told of
		return []string{place(c.Prefix), remove(c.Prefix)}
	case c.Want == routers.Withdrawn && known && stage == routers.Absent:
		return nil
	case c.Want == routers.Withdrawn:
		return []string{remove(c.Prefix)}
	case !known, stated && there:
		return nil
	}
	return []string{place(c.Prefix)}
}

// hosts leaves out what is not one address.
func hosts(cs []routers.Change, iface string) ([]routers.Change, error) {
	var single []routers.Change
	var refused []error
	for _, c := range cs {
		if c.Prefix.IsSingleIP() {
			single = append(single, c)
			continue
		}
		refused = append(refused, routers.Errorf(routers.ErrRefused, "address %s on interface %q: not a host prefix; write a /32 or a /128", c.Prefix, iface))
	}
	return single, routers.Join(refused...)
}

// without leaves out the changes to one want, and gives an error of that class for each.
func without(cs []routers.Change, want routers.Want, class error, why string) ([]routers.Change, error) {
	var rest []routers.Change
	var failed []error
	for _, c := range cs {
		if c.Want != want {
			rest = append(rest, c)
			continue
		}
		failed = append(failed, routers.Errorf(class, "%s: %s", c.Prefix, why))
	}
	return rest, routers.Join(failed...)
}

// prefixes gives those of the changes, in order.
func prefixes(cs []routers.Change) []netip.Prefix {
	ps := make([]netip.Prefix, len(cs))
	for i, c := range cs {
		ps[i] = c.Prefix
	}
	return ps
}
