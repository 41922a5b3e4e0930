// Package program drives whatever the operator's own commands drive: one announces a prefix, one
// withdraws it, and one may read how far it has come.
package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"vouch/routers"
)

// Options are the commands, each a program and its arguments; no shell is involved. They are run with
// ANYCAST_PREFIX, ANYCAST_ACTION (up, down, degrade, read) and ANYCAST_SERVICE in the environment.
type Options struct {
	Up      []string
	Down    []string
	Degrade []string // none: there is no degraded way
	// Read tells how far the prefix has come, by the first words of its output, in any case and with spaces or
	// commas between them: a stage (absent, configured, selected, advertised), which "degraded" may follow, or
	// "degraded" alone, which is advertised and degraded; what comes after is a detail for people. Without
	// output, exit status 0 is advertised and 1 absent. Every other outcome is unknown. Without Read nothing is
	// ever known to be more than configured.
	Read    []string
	Timeout time.Duration // of one command; default 10s
}

// The values of ANYCAST_ACTION.
const (
	actionUp      = "up"
	actionDown    = "down"
	actionDegrade = "degrade"
	actionRead    = "read"
)

// actions are what is run for a want.
var actions = map[routers.Want]string{
	routers.Announced: actionUp, routers.Degraded: actionDegrade, routers.Withdrawn: actionDown,
}

// A Router runs the commands, those of several prefixes side by side. With a read command it knows what
// that says and nothing else. Without one there is nothing to be read, so it is the one driver that goes
// by what its commands came to in this process.
type Router struct {
	options Options

	mu       sync.Mutex
	services map[netip.Prefix]string
	records  map[netip.Prefix]*record
	turns    uint64 // commands started
}

var (
	_ routers.Router   = (*Router)(nil)
	_ routers.Labeled  = (*Router)(nil)
	_ routers.Examiner = (*Router)(nil)
)

// New makes a driver; it runs nothing yet.
func New(o Options) *Router {
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	return &Router{options: o, services: map[netip.Prefix]string{}, records: map[netip.Prefix]*record{}}
}

// SetLabels says whose each prefix is, which the commands find in ANYCAST_SERVICE.
func (r *Router) SetLabels(labels map[netip.Prefix]routers.Label) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p, l := range labels {
		r.services[p] = l.Service
	}
}

// Observe runs the read command for each prefix. Its error is of class routers.ErrUnavailable, or
// routers.ErrBusy when an earlier reading still runs and cannot be ended.
//
// Without a read command it says what the last command for the prefix came to: up is configured, down
// absent. After a failure, and before this process has run any, what is there is not known, and that is
// told as configured and broken: then both an announce and a withdraw are asked for. The error holds a
// routers.PrefixError for each reading that failed.
func (r *Router) Observe(ctx context.Context, ps []netip.Prefix) ([]routers.Observation, error) {
	if len(r.options.Read) == 0 {
		return r.recall(ps), nil
	}
	jobs := make([]job, len(ps))
	for i, p := range ps {
		jobs[i] = job{action: actionRead, prefix: p, argv: r.options.Read}
	}
	byPrefix := map[netip.Prefix]routers.Observation{}
	var errs []error
	for _, e := range r.all(ctx, jobs) {
		o, err := judge(e)
		byPrefix[e.prefix] = o
		if err != nil {
			errs = append(errs, &routers.PrefixError{Prefix: e.prefix, Err: err})
		}
	}
	os := make([]routers.Observation, len(ps))
	for i, p := range ps {
		os[i] = byPrefix[p]
	}
	return os, sum(errs)
}

// Apply runs the command of each change, withdraws first. One that hangs is killed at its timeout with
// its whole process group; the others are not held up by it. A command that fails is an error of class
// routers.ErrUnavailable; a degrade without a command for it is refused. The error holds a
// routers.PrefixError for each change that failed.
func (r *Router) Apply(ctx context.Context, cs []routers.Change) error {
	var jobs []job
	var errs []error
	for _, c := range cs {
		j := job{want: c.Want, action: actions[c.Want], prefix: c.Prefix, argv: r.command(c.Want)}
		if err := valid(j); err != nil {
			errs = append(errs, &routers.PrefixError{Prefix: c.Prefix, Err: fmt.Errorf("program: %w", err)})
			continue
		}
		jobs = append(jobs, j)
	}
	for _, e := range r.all(ctx, jobs) {
		err := e.failure()
		r.remember(e, err)
		if err != nil {
			errs = append(errs, &routers.PrefixError{Prefix: e.prefix, Err: err})
		}
	}
	return sum(errs)
}

// command is the one that leads to w.
func (r *Router) command(w routers.Want) []string {
	switch w {
	case routers.Announced:
		return r.options.Up
	case routers.Degraded:
		return r.options.Degrade
	}
	return r.options.Down
}

// valid refuses what no command is run for.
func valid(j job) error {
	switch p := j.prefix; {
	case j.action == "":
		return routers.Errorf(routers.ErrRefused, "%s: no change is called %s", p, j.want)
	case !p.IsValid(), p != p.Masked(), p.Addr().Is4In6():
		return routers.Errorf(routers.ErrRefused, "%s: not a prefix in its usual form, such as 192.0.2.53/32", p)
	case len(j.argv) == 0:
		return routers.Errorf(routers.ErrRefused, "%s: there is no %s command: set %s in [router]", p, j.action, j.action)
	}
	return nil
}

// most is how many failures are told one by one.
const most = 3

// sum makes one error of many, of all their classes.
func sum(errs []error) error {
	if len(errs) <= most {
		return routers.Join(errs...)
	}
	return routers.Errorf(errors.Join(errs...), "%w; and %d more failed", routers.Join(errs[:most]...), len(errs)-most)
}

// Goal is Advertised where it can be read, and else Configured.
func (r *Router) Goal() routers.Stage {
	if len(r.options.Read) == 0 {
		return routers.Configured
	}
	return routers.Advertised
}

// Close does nothing: no command outlives the call that ran it, unless it cannot be killed.
func (r *Router) Close() error { return nil }

// String names the programs, such as "program (/usr/local/sbin/anycast, not read back)".
func (r *Router) String() string {
	up, read := name(r.options.Up), "not read back"
	if len(r.options.Read) > 0 {
		read = "read by " + name(r.options.Read)
	}
	return fmt.Sprintf("program (%s, %s)", up, read)
}

// name is the program of a command; its arguments may hold what is not for everybody.
func name(argv []string) string {
	if len(argv) == 0 {
		return "none"
	}
	return argv[0]
}
