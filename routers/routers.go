// Package routers defines what a router driver is: it reads how far a prefix has come in one
// routing daemon of this host, and asks that daemon for changes. It never remembers what it asked.
package routers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// A Stage says how far a prefix has come in the daemon; each implies those before it.
type Stage uint8

// The stages. Unknown is a state of its own: the table could not be read.
const (
	Unknown    Stage = iota
	Absent           // nothing of it is there
	Configured       // in the daemon's configuration, or the address is on the interface
	Selected         // valid and best in the table
	Advertised       // in the link-state database with a full neighbour to tell, or sent to enough established peers
)

var stageNames = [...]string{"unknown", "absent", "configured", "selected", "advertised"}

// String gives the spec's word.
func (s Stage) String() string { return stageNames[s] }

// MarshalText gives the spec's word.
func (s Stage) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the spec's word.
func (s *Stage) UnmarshalText(b []byte) error {
	i := slices.Index(stageNames[:], string(b))
	if i < 0 {
		return fmt.Errorf("stage %q is not one of %v", b, stageNames)
	}
	*s = Stage(i)
	return nil
}

// A Want is what a prefix ought to be.
type Want uint8

// The wants. Keep is for a service of which nothing is known yet: what is stays. Degraded is announced
// in the driver's worse way, so that other nodes are preferred.
const (
	Keep Want = iota
	Withdrawn
	Degraded
	Announced
)

var wantNames = [...]string{"keep", "withdrawn", "degraded", "announced"}

// String gives the spec's word.
func (w Want) String() string { return wantNames[w] }

// MarshalText gives the spec's word.
func (w Want) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// UnmarshalText reads the spec's word.
func (w *Want) UnmarshalText(b []byte) error {
	i := slices.Index(wantNames[:], string(b))
	if i < 0 {
		return fmt.Errorf("want %q is not one of %v", b, wantNames)
	}
	*w = Want(i)
	return nil
}

// An Observation is what the daemon and the kernel were just read to say of one prefix.
type Observation struct {
	Prefix   netip.Prefix
	Stage    Stage
	Degraded bool   // it is there in the worse way
	Broken   bool   // what it stands on is not there, or what keeps it so when the daemon is started anew: as wanted in no way
	Peers    []Peer // the neighbours it is meant for, by name, where the protocol knows them
	Detail   string // for people: why the stage is no further, or unknown
	Epoch    uint64 // another one than before: what the daemon refused may be taken now, such as after a commit of others; 0: nobody can tell
	Hindered string // for people: what in the daemon's configuration keeps whatever is asked for from taking effect; empty: not known of any
}

// A Peer is one neighbour of the daemon, and how far a prefix has come towards it: Advertised when it was
// sent, or is in the database that both share, and less otherwise.
type Peer struct {
	Name   string `json:"name"`
	Stage  Stage  `json:"stage"`
	Detail string `json:"detail,omitempty"` // why no further
}

// Reached gives the names of the peers that the prefix is advertised to.
func (o Observation) Reached() []string {
	var names []string
	for _, p := range o.Peers {
		if p.Stage == Advertised {
			names = append(names, p.Name)
		}
	}
	return names
}

// A Change is one thing to be done: Want is Announced, Degraded or Withdrawn, never Keep.
type Change struct {
	Prefix netip.Prefix
	Want   Want
}

// A Router is one routing daemon on this host. Its methods are not called concurrently with each
// other. Every method returns soon after its ctx ends.
type Router interface {
	// Observe reads the tables, never our memory. It gives one Observation for each prefix, in
	// order, also beside an error: what could not be read has stage Unknown. The error is of one of
	// the classes below where it can be told.
	Observe(ctx context.Context, ps []netip.Prefix) ([]Observation, error)
	// Apply asks for the changes, withdraws first. It is idempotent: asking for what is so already
	// is no error. A nil error says only that it was asked; Observe tells what became of it.
	Apply(ctx context.Context, cs []Change) error
	// Goal is the stage at which an announced prefix has arrived, as far as this driver can read.
	Goal() Stage
	// Close frees what the driver holds. The daemon and its table stay as they are.
	Close() error
	// String names the driver for people, such as "frr (address on lo, ospf)".
	fmt.Stringer
}

// A Preparer is a Router whose daemon cannot start without something that is vouch's to make. Prepare makes that
// where no daemon runs, with nothing announced by it, and otherwise does nothing. It is called after a reading of
// the prefixes that failed, by whoever keeps them, and not concurrently with Observe and Apply.
type Preparer interface {
	Prepare(ctx context.Context, ps []netip.Prefix) error
}

// A Watcher is a Router that can tell when its tables may have changed. Watch calls wake for every
// hint until ctx ends, concurrently with the other methods; each hint says only "read again". It
// returns an error when the source of hints is lost.
type Watcher interface {
	Watch(ctx context.Context, wake func()) error
}

// A Label is what the operator calls a prefix.
type Label struct {
	Service string // whose prefix it is
	Symbol  string // what it goes by in the daemon's configuration; empty: the driver makes it of Service
}

// A Labeled is a Router that needs to know whose each prefix is. SetLabels is called before the first use
// and when the configuration has changed, possibly concurrently with the other methods. What is not named
// any more keeps the label it had: it may still have to be withdrawn.
type Labeled interface {
	SetLabels(labels map[netip.Prefix]Label)
}

// A Severity says what a Finding asks of a person.
type Severity uint8

// The severities.
const (
	Fine    Severity = iota // as it should be
	Notice                  // worth knowing
	Warning                 // works now, and will hurt some day
	Failing                 // cannot work as it is
)

var severityNames = [...]string{"ok", "note", "warn", "fail"}

// String gives the word of vouch doctor.
func (s Severity) String() string { return severityNames[s] }

// MarshalText gives the word of vouch doctor.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// A Finding is one thing that was looked at in the daemon and its surroundings.
type Finding struct {
	Severity Severity `json:"severity"`
	Subject  string   `json:"subject"` // a socket, a file, a protocol, a prefix
	Text     string   `json:"text"`
	WayOut   string   `json:"way_out,omitempty"`
}

// An Examiner is a Router that can say what would keep its prefixes from being announced or withdrawn, or
// what would announce them behind its back. Examine changes nothing, and returns soon after ctx ends. It may
// be called concurrently with the other methods, never with itself: it has sessions of its own.
type Examiner interface {
	Examine(ctx context.Context, ps []netip.Prefix) []Finding
}

// The classes of errors, found with errors.Is.
var (
	// ErrUnavailable: the daemon is away or does not answer. Try again later.
	ErrUnavailable = errors.New("unavailable")
	// ErrRefused: the daemon, or the kernel, understood and said no. Do not hammer.
	ErrRefused = errors.New("refused")
	// ErrBusy: locked by somebody else. Try again soon.
	ErrBusy = errors.New("busy")
	// ErrUnderway, beside ErrBusy: what was asked for goes on beyond the call, and fails by nothing but its deadline.
	ErrUnderway = errors.New("under way")
)
