// Package state holds what vouch knows: the Snapshot which everything that is shown is
// read from, the recent events, and the state file that carries verdicts over a restart.
package state

import (
	"time"

	"vouch/agent/internal/decide"
	"vouch/agent/internal/health"
	"vouch/checks"
	"vouch/routers"
)

// A Snapshot is all that is known at one moment. It is never changed after it was published.
type Snapshot struct {
	Time     time.Time `json:"time"`
	Version  string    `json:"version"`
	Node     string    `json:"node"`
	PID      int       `json:"pid"`
	Started  time.Time `json:"started"`
	Ready    bool      `json:"ready"`
	Stopping bool      `json:"stopping,omitempty"`
	Config   Config    `json:"config"`
	Router   Router    `json:"router"`
	Services []Service `json:"services"` // by name
	Problems []string  `json:"problems"` // what needs somebody's attention beside the services: state file, reload …
	Warnings []string  `json:"warnings"` // what works now and will hurt some day
}

// Config says which configuration is in force.
type Config struct {
	File   string    `json:"file"`
	Loaded time.Time `json:"loaded"`
	Error  string    `json:"error,omitempty"` // why the last reload was refused
}

// A Router is the state of the routing daemon, as last read.
type Router struct {
	Name  string        `json:"name"`
	Goal  routers.Stage `json:"goal"`
	OK    bool          `json:"ok"` // the last read succeeded
	Since time.Time     `json:"since,omitzero"`
	Read  time.Time     `json:"read,omitzero"` // the last successful read
	Error string        `json:"error,omitempty"`
}

// A Service is one service's part of the Snapshot. Its counts are of the checks that can withdraw it.
type Service struct {
	Name      string          `json:"name"`
	Verdict   health.Verdict  `json:"verdict"`
	Since     time.Time       `json:"since,omitzero"`
	Good      int             `json:"good"`
	Bad       int             `json:"bad"`
	Rise      int             `json:"rise"`
	Fall      int             `json:"fall"`
	Rounds    uint64          `json:"rounds"`
	LastRound time.Time       `json:"last_round,omitzero"`
	HoldUntil time.Time       `json:"hold_until,omitzero"`
	Soft      *Soft           `json:"soft,omitempty"`
	Drain     *decide.Drain   `json:"drain,omitempty"`
	Removed   bool            `json:"removed,omitempty"`
	Decision  decide.Decision `json:"decision"`
	Checks    []Check         `json:"checks"`
	Prefixes  []Prefix        `json:"prefixes"`
}

// A Soft is how those checks of a service stand that can only degrade it.
type Soft struct {
	Verdict   health.Verdict `json:"verdict"` // down: it is degraded, if it is up otherwise
	Since     time.Time      `json:"since,omitzero"`
	Good      int            `json:"good"`
	Bad       int            `json:"bad"`
	HoldUntil time.Time      `json:"hold_until,omitzero"`
}

// A Check is the standing of one check.
type Check struct {
	Name   string        `json:"name"`
	Type   string        `json:"type"`
	Target string        `json:"target"`
	OnFail string        `json:"on_fail"`
	Group  string        `json:"group,omitempty"`
	Status checks.Status `json:"status"`
	Reason checks.Reason `json:"reason,omitempty"`
	Detail string        `json:"detail,omitempty"`
	Since  time.Time     `json:"since,omitzero"` // when Status became so
	Last   time.Time     `json:"last,omitzero"`  // start of the last run
	Took   time.Duration `json:"took_ns"`
}

// A Prefix is one prefix: what it ought to be, and what it was last read to be.
type Prefix struct {
	Prefix   string         `json:"prefix"`
	Want     routers.Want   `json:"want"`
	Stage    routers.Stage  `json:"stage"`
	Degraded bool           `json:"degraded,omitempty"`
	Broken   bool           `json:"broken,omitempty"` // what it stands on is not there: as wanted in no way
	Peers    []routers.Peer `json:"peers,omitempty"`
	Detail   string         `json:"detail,omitempty"`
	Read     time.Time      `json:"read,omitzero"`     // when it was last read
	Since    time.Time      `json:"since,omitzero"`    // when Stage, Degraded and Broken became so
	Diverged time.Time      `json:"diverged,omitzero"` // since when desired and observed differ; zero: they agree
	Doing    string         `json:"doing,omitempty"`   // what is being done about it
	Attempts int            `json:"attempts,omitempty"`
	Next     time.Time      `json:"next_attempt,omitzero"`
	Error    string         `json:"error,omitempty"`
}

// An Event is one thing that changed. It is logged once, when it happens.
type Event struct {
	Seq     uint64    `json:"seq"`
	Time    time.Time `json:"time"`
	Level   string    `json:"level"` // info, warn, error
	Kind    string    `json:"kind"`  // one of the Kind constants
	Service string    `json:"service,omitempty"`
	Prefix  string    `json:"prefix,omitempty"`
	Check   string    `json:"check,omitempty"`
	Router  string    `json:"router,omitempty"` // as Router.Name, where the event is about what it announces
	Stage   string    `json:"stage,omitempty"`  // of the prefix, as last read
	Reason  string    `json:"reason,omitempty"`
	Text    string    `json:"text"`
}
