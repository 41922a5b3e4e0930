// Package routertest holds one table of scenarios that every router driver, with every method, has to
// pass on a real daemon: announced, degraded and withdrawn, restarted, killed, hung, cut off in the
// middle of a reply, refused, undone by somebody else, and a thousand prefixes at once.
//
// What is true is told by the neighbour, the core: whether its kernel sends packets for a prefix to the
// node. A driver that reports something else fails.
package routertest

import (
	"context"
	"net/netip"
	"regexp"
	"syscall"
	"time"

	"vouch/routers"
	"vouch/routers/lab"
)

// A Subject is one driver with one method on one daemon: a row of the table. A field that is nil leaves
// out the scenarios which need it; Without says why.
type Subject struct {
	Name   string
	Router routers.Router
	Node   *lab.Node    // where the driver runs
	Core   *lab.Node    // the neighbour that is told
	Hops   []netip.Addr // by which the core reaches the node
	// Blink is how long the core may be without an IPv6 prefix that is announced all the time: the core's
	// own doing, where it replaces a route by deleting and adding it.
	Blink time.Duration

	// One and Two are each the prefixes of one service, of both families: a driver that can change only
	// all prefixes of a service at once is asked for no less. Many are those of a third service: a
	// thousand, where the daemon can have so many.
	One, Two, Many []netip.Prefix
	Labels         map[netip.Prefix]routers.Label // of all of them, for drivers that want to know
	// Foreign are announced by the node in the same place, and are not ours: they stay all the time.
	Foreign []netip.Prefix

	Daemon *Daemon
	Wire   *Wire
	// Undo takes away what announces a prefix, and Redo puts it there, as somebody else would who
	// knows nothing of us: another's configure, an address deleted or added by hand.
	Undo, Redo func(ctx context.Context, ps []netip.Prefix) error
	// Refuse makes the daemon refuse a change.
	Refuse func(ctx context.Context) (Refusal, error)
	// Worse says whether the core has the prefix in the worse way of a degraded one.
	Worse func(ctx context.Context, p netip.Prefix) (bool, error)

	// Told is what the core's daemon says of a prefix, for a failure's text. It may be nil.
	Told func(ctx context.Context, p netip.Prefix) string

	Without  map[string]string // scenario: why it cannot be
	Patience time.Duration     // how long a state is waited for; default 40 s
	// Thorough cuts replies after every byte; otherwise it is some of them.
	Thorough bool
}

// named tells a driver whose the prefixes are.
func (s *Subject) named(r routers.Router) routers.Router {
	if l, ok := r.(routers.Labeled); ok {
		l.SetLabels(s.Labels)
	}
	return r
}

// A Daemon is what is behind a driver, to be ill-treated. Its funcs concern every process that the
// driver speaks to.
type Daemon struct {
	Restart func(ctx context.Context) error // stopped and started again with its saved configuration
	Kill    func() error                    // SIGKILL
	Start   func(ctx context.Context) error // after Kill
	Signal  func(s syscall.Signal) error    // SIGSTOP, SIGCONT
}

// A Wire is what a driver speaks over.
type Wire struct {
	Sockets []string                        // of the daemon
	End     byte                            // of a request
	Through func(dir string) routers.Router // a driver like the subject's, with the sockets in dir
	Reading *regexp.Regexp                  // what a request is like that changes nothing
}

// A Refusal is a change that the daemon will not make until Restore.
type Refusal struct {
	Change  routers.Change
	Names   string // what the error must name; default the prefix
	Anyway  bool   // somebody else announces it
	Restore func(ctx context.Context) error
}
