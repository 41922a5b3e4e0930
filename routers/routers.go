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

// The wants. Keep is for a service of which nothing is known yet: what is stays.
const (
	Keep Want = iota
	Withdrawn
	Announced
)

var wantNames = [...]string{"keep", "withdrawn", "announced"}

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
	Prefix netip.Prefix
	Stage  Stage
	Broken bool     // advertised, but what it stands on is missing: as wanted neither way
	Peers  []string // whom it is advertised to, where the protocol knows
	Detail string   // for people: why the stage is no further, or unknown
}

// A Change is one thing to be done: Want is Announced or Withdrawn, never Keep.
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

// A Watcher is a Router that can tell when its tables may have changed. Watch calls wake for every
// hint until ctx ends, concurrently with the other methods; each hint says only "read again". It
// returns an error when the source of hints is lost.
type Watcher interface {
	Watch(ctx context.Context, wake func()) error
}

// The classes of errors, found with errors.Is.
var (
	// ErrUnavailable: the daemon is away or does not answer. Try again later.
	ErrUnavailable = errors.New("unavailable")
	// ErrRefused: the daemon, or the kernel, understood and said no. Do not hammer.
	ErrRefused = errors.New("refused")
	// ErrBusy: locked by somebody else. Try again soon.
	ErrBusy = errors.New("busy")
)
