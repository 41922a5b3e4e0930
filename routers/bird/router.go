package bird

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"vouch/routers"
	"vouch/routers/rtnl"
)

// A method is one way to announce. Its observe gives one Observation for each prefix, in order.
type method interface {
	observe(ctx context.Context, ps []netip.Prefix) ([]routers.Observation, error)
	apply(ctx context.Context, cs []routers.Change) error
}

// Router is the driver. Of what it asked for it remembers nothing.
type Router struct {
	options Options
	daemons daemons
	names   *names
	memo    *memo
	method  method
}

var (
	_ routers.Preparer = (*Router)(nil)
	_ routers.Watcher  = (*Router)(nil)
	_ routers.Labeled  = (*Router)(nil)
	_ routers.Examiner = (*Router)(nil)
)

// New makes a driver; it connects to nothing yet.
func New(o Options) *Router {
	o = o.withDefaults()
	return newRouter(o, newDaemons(o))
}

func newRouter(o Options, d daemons) *Router {
	r := &Router{options: o, daemons: d, names: newNames(o), memo: &memo{}}
	switch o.Method {
	case MethodProtocol:
		r.method = byProtocol{o, d, r.names}
	case MethodInclude:
		r.method = newInclude(o, d, r.names, r.memo)
	default:
		r.method = byAddress{o, d, rtnl.ObserveAddresses, rtnl.ChangeAddresses}
	}
	return r
}

// Observe reads what each peer is given, the tables and OSPF's own LSAs; see sight. Its errors are of class
// routers.ErrUnavailable. With BIRD 1.6 one of the two daemons may be away: then only its family is unknown.
func (r *Router) Observe(ctx context.Context, ps []netip.Prefix) ([]routers.Observation, error) {
	if len(ps) == 0 {
		return nil, nil
	}
	os, err := r.method.observe(ctx, ps)
	if err != nil {
		err = fmt.Errorf("bird: %w", err)
	}
	return os, err
}

// Prepare makes the include file where no BIRD runs, as one does not start without it, with everything off that
// is not in it. Its errors are of class routers.ErrRefused.
func (r *Router) Prepare(ctx context.Context, ps []netip.Prefix) error {
	if b, ok := r.method.(byInclude); ok {
		return b.prepare(ctx, ps)
	}
	return nil
}

// Apply asks for the changes: method include writes all of them at once, the others withdraw first.
func (r *Router) Apply(ctx context.Context, cs []routers.Change) error {
	if len(cs) == 0 {
		return nil
	}
	for _, c := range cs {
		if err := r.valid(c); err != nil {
			return fmt.Errorf("bird: %w", err)
		}
	}
	if err := r.method.apply(ctx, cs); err != nil {
		return fmt.Errorf("bird: %w", err)
	}
	return nil
}

func (r *Router) valid(c routers.Change) error {
	p := c.Prefix
	switch {
	case !p.IsValid(), p != p.Masked(), p.Addr().Is4In6():
		return routers.Errorf(routers.ErrRefused, "%s: not a prefix in its usual form, such as 192.0.2.53/32", p)
	case c.Want == routers.Degraded && !r.names.degradable(p):
		return routers.Errorf(routers.ErrRefused, "%s: there is no degraded way: set [router.degraded], which method address cannot have", p)
	case c.Want != routers.Withdrawn && r.names.rival(p) != "":
		return routers.Errorf(routers.ErrRefused, "%s: services %q and %q have the same symbol in bird: give one of them a symbol of its own",
			p, r.names.service(p), r.names.rival(p))
	case c.Want != routers.Announced && c.Want != routers.Degraded && c.Want != routers.Withdrawn:
		return routers.Errorf(routers.ErrRefused, "%s: no change is called %s", p, c.Want)
	}
	return nil
}

// Watch wakes for changes in the kernel's tables, when a BIRD ends or comes back, and when something else than
// vouch changes the include file. What changes only within BIRD is seen by polling.
func (r *Router) Watch(ctx context.Context, wake func()) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { follow(ctx, r.daemons.main, wake) })
	wg.Go(func() { follow(ctx, r.daemons.six, wake) })
	if b, ok := r.method.(byInclude); ok {
		wg.Go(func() { b.watch(ctx, wake) })
	}
	return rtnl.Watch(ctx, wake)
}

// follow wakes whenever a BIRD has ended or come. While none is there it looks for one now and then.
func follow(ctx context.Context, t talker, wake func()) {
	const pause = time.Second
	tick := time.NewTicker(pause)
	defer tick.Stop()
	if o, ok := t.(*orElse); ok {
		t = o.first // no program is run for a hint
	}
	away := false
	for ctx.Err() == nil {
		if _, err := t.version(ctx); err == nil {
			if away {
				wake()
			}
			away = false
			if t.ended(ctx) == nil {
				wake()
				continue
			}
		}
		if !away {
			wake()
		}
		away = true
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// Goal is Advertised.
func (r *Router) Goal() routers.Stage { return routers.Advertised }

// Close ends the sessions.
func (r *Router) Close() error {
	r.daemons.close()
	return nil
}

// String names the driver, such as "bird (include, switch)".
func (r *Router) String() string {
	switch o := r.options; o.Method {
	case MethodProtocol:
		return "bird (protocol)"
	case MethodInclude:
		return fmt.Sprintf("bird (include, %s)", o.Style)
	default:
		return fmt.Sprintf("bird (address on %s)", o.Interface)
	}
}

// SetLabels says whose the prefixes are. It may be called concurrently with the other methods.
func (r *Router) SetLabels(labels map[netip.Prefix]routers.Label) { r.names.set(labels) }

// Examine says what would keep the prefixes from being announced or withdrawn. It may be called
// concurrently with the other methods.
func (r *Router) Examine(ctx context.Context, ps []netip.Prefix) []routers.Finding {
	return r.daemons.examine(ctx, exam{r.options, r.names, r.memo}, ps)
}
