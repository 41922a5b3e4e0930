package detect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"vouch/routers"
	"vouch/routers/rtnl"
)

// takeover is how long the chosen daemon must have been away before another one that runs is driven in
// its place. A restart takes less, and is no reason to begin with a daemon that happens to run too.
const takeover = 30 * time.Second

// A Router drives the daemon that it finds. It chooses at first use, and keeps its choice as long as that
// daemon runs, even one that hangs or lets nobody in: what it wants of the kernel it can still do then.
// A daemon that was started anew is asked for its version again. Where none is chosen nothing is driven,
// and every method's error says why.
type Router struct {
	options Options
	rows    []row

	looking sync.Mutex // held while it looks, which takes time; taken before mu
	gone    time.Time  // since when the chosen daemon is known not to run; zero: it does. Guarded by looking

	mu       sync.Mutex
	labels   map[netip.Prefix]routers.Label // also of what is named no more
	managed  map[netip.Prefix]routers.Label // as they were last set
	chosen   *choice
	beside   []string      // the daemons that run too
	doubtful bool          // the last reading failed for want of the daemon
	changed  chan struct{} // closed when another driver was made
}

// A choice is the daemon that is driven.
type choice struct {
	row    row
	found  Found
	router routers.Router
	files  []fileID // of all its sockets when it was looked at
}

var (
	_ routers.Router   = (*Router)(nil)
	_ routers.Preparer = (*Router)(nil)
	_ routers.Watcher  = (*Router)(nil)
	_ routers.Labeled  = (*Router)(nil)
	_ routers.Examiner = (*Router)(nil)
)

// New makes a driver that looks for its daemon at first use.
func New(o Options) *Router {
	return &Router{options: o, rows: o.among(), labels: map[netip.Prefix]routers.Label{}, changed: make(chan struct{})}
}

// Observe reads what the daemon's driver reads.
func (r *Router) Observe(ctx context.Context, ps []netip.Prefix) ([]routers.Observation, error) {
	c, err := r.current(ctx)
	if err != nil {
		return unknown(ps, err), err
	}
	os, err := c.router.Observe(ctx, ps)
	r.heard(err)
	return os, err
}

// Prepare is the driver's, also where none is chosen and only one can be.
func (r *Router) Prepare(ctx context.Context, ps []netip.Prefix) error {
	make := func(router routers.Router) error {
		if p, ok := router.(routers.Preparer); ok {
			return p.Prepare(ctx, ps)
		}
		return nil
	}
	r.mu.Lock()
	c := r.chosen
	r.mu.Unlock()
	switch {
	case c != nil:
		return make(c.router)
	case len(r.rows) == 1:
		return r.prepare(r.rows[0], make)
	}
	return nil
}

// Apply asks the daemon's driver for the changes. Where none is chosen withdraws are made all the same: see prepare.
func (r *Router) Apply(ctx context.Context, cs []routers.Change) error {
	c, err := r.current(ctx)
	if err == nil {
		return c.router.Apply(ctx, cs)
	}
	if len(r.rows) > 1 {
		cs = slices.DeleteFunc(slices.Clone(cs), func(c routers.Change) bool { return c.Want != routers.Withdrawn })
	}
	if len(cs) == 0 {
		return err
	}
	errs := []error{err}
	for _, w := range r.rows {
		errs = append(errs, r.prepare(w, func(w routers.Router) error { return w.Apply(ctx, cs) }))
	}
	return routers.Join(errs...)
}

// prepare asks a daemon that is not driven. The only one that can come may be away: its driver may have something to
// do before it can start, such as to make the file that BIRD includes. Where there is a choice between several, it is
// between daemons that take a prefix from an interface: that it is taken away there withdraws it from whichever of
// them an earlier run was driving.
func (r *Router) prepare(w row, ask func(routers.Router) error) (err error) {
	router := w.open(r.options, Found{})
	defer func() { err = routers.Join(err, router.Close()) }()
	r.mu.Lock()
	r.tellLabels(router)
	r.mu.Unlock()
	return ask(router)
}

// Examine is the driver's; without one it says why there is none.
func (r *Router) Examine(ctx context.Context, ps []netip.Prefix) []routers.Finding {
	c, err := r.current(ctx)
	if err != nil {
		return []routers.Finding{{Severity: routers.Failing, Subject: "router", Text: err.Error()}}
	}
	var all []routers.Finding
	if e, ok := c.router.(routers.Examiner); ok {
		all = e.Examine(ctx, ps)
	}
	for _, w := range r.others(c) {
		if f := w.look(ctx, r.options, readListening()); f.Running {
			all = append(all, Beside(c.row.name, f))
		}
	}
	return all
}

// SetLabels hands the labels on, also to the driver of a daemon that is found later.
func (r *Router) SetLabels(labels map[netip.Prefix]routers.Label) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.Copy(r.labels, labels)
	r.managed = maps.Clone(labels)
	if r.chosen == nil {
		return
	}
	if l, ok := r.chosen.router.(routers.Labeled); ok {
		l.SetLabels(maps.Clone(labels))
	}
}

// tellLabels hands all labels to a new driver, and then those that count. It is to be called with r.mu held.
func (r *Router) tellLabels(router routers.Router) {
	l, ok := router.(routers.Labeled)
	if !ok || r.managed == nil {
		return
	}
	if len(r.managed) < len(r.labels) {
		l.SetLabels(maps.Clone(r.labels))
	}
	l.SetLabels(maps.Clone(r.managed))
}

// Watch wakes for what the driver watches, whichever it is at the time. Without one it wakes for changes
// in the kernel's tables: a daemon that starts makes some.
func (r *Router) Watch(ctx context.Context, wake func()) error {
	for {
		r.mu.Lock()
		watch, changed := rtnl.Watch, r.changed
		if r.chosen != nil {
			if w, ok := r.chosen.router.(routers.Watcher); ok {
				watch = w.Watch
			}
		}
		r.mu.Unlock()
		if err := until(ctx, changed, wake, watch); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// until runs watch, on the caller's own thread, until ctx ends or the driver has changed, which is no
// error.
func until(ctx context.Context, changed <-chan struct{}, wake func(), watch func(context.Context, func()) error) error {
	inner, cancel := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel()
	waiting.Go(func() {
		select {
		case <-changed:
			cancel()
		case <-inner.Done():
		}
	})
	err := watch(inner, wake)
	select {
	case <-changed:
		return nil
	default:
	}
	if err == nil && ctx.Err() == nil {
		err = errors.New("the driver's watch has ended")
	}
	return err
}

// Goal is the driver's; without one it is Advertised.
func (r *Router) Goal() routers.Stage {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.chosen == nil {
		return routers.Advertised
	}
	return r.chosen.router.Goal()
}

// Close closes the driver, if there is one.
func (r *Router) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.chosen == nil {
		return nil
	}
	return r.chosen.router.Close()
}

// String says what is driven and how it was found, such as "frr 8.4.4 (address on lo, ospf), found by
// /run/frr/zebra.vty", and which other daemon runs too.
func (r *Router) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.chosen == nil {
		return "auto (no daemon chosen)"
	}
	c := r.chosen
	how, ok := strings.CutPrefix(c.router.String(), c.row.name+" ")
	if !ok {
		how = c.router.String()
	}
	text := fmt.Sprintf("%s %s, found by %s", c.found.Name(), how, c.found.By)
	if len(r.beside) > 0 {
		text += "; " + strings.Join(r.beside, " and ") + " runs too"
	}
	return text
}

// Chosen gives what is driven, and false while that is nothing.
func (r *Router) Chosen() (Found, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.chosen == nil {
		return Found{}, false
	}
	return r.chosen.found, true
}

// heard notes whether a reading could be made. A change may be made in the kernel alone, and tells nothing.
func (r *Router) heard(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.doubtful = errors.Is(err, routers.ErrUnavailable)
}

// current gives the choice that stands now, looking for one where there is none, where its sockets are
// not those it was found by any more, and where another one may have taken its place.
func (r *Router) current(ctx context.Context) (*choice, error) {
	r.looking.Lock()
	defer r.looking.Unlock()
	r.mu.Lock()
	c, doubtful := r.chosen, r.doubtful
	r.mu.Unlock()
	if c == nil {
		return r.choose(ctx, r.rows)
	}
	r.lookBeside(c)
	if n := r.renew(ctx, c); n != nil {
		return n, nil
	}
	if !doubtful || alive(c.found) {
		r.gone = time.Time{}
		return c, nil
	}
	if r.gone.IsZero() {
		r.gone = time.Now()
	}
	if time.Since(r.gone) < takeover {
		return c, nil
	}
	if n, err := r.choose(ctx, r.others(c)); err == nil {
		return n, nil
	}
	return c, nil
}

// choose looks for one of the daemons and drives it.
func (r *Router) choose(ctx context.Context, among []row) (*choice, error) {
	heard := readListening()
	fs, files := make([]Found, len(among)), make([][]fileID, len(among))
	for i, w := range among {
		files[i] = filesOf(w.sockets(r.options)) // before it is looked at: what changes meanwhile is looked at anew
		fs[i] = w.look(ctx, r.options, heard)
	}
	found, err := Choose(fs)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(fs, func(f Found) bool { return f.Daemon == found.Daemon })
	return r.drive(among[i], found, files[i]), nil
}

// renew looks again at the chosen daemon when some socket of it has come, gone or been made anew, and
// drives it as it is now. It gives nil when nothing has changed, or the daemon does not run.
func (r *Router) renew(ctx context.Context, c *choice) *choice {
	files := filesOf(c.row.sockets(r.options))
	if slices.Equal(c.files, files) {
		return nil
	}
	found := c.row.look(ctx, r.options, readListening())
	if !found.Running || found.Unclear != "" {
		return nil
	}
	return r.drive(c.row, found, files)
}

// drive makes a driver for what was found the one that is used. r.looking must be held.
func (r *Router) drive(w row, found Found, files []fileID) *choice {
	r.gone = time.Time{}
	c := &choice{row: w, found: found, files: files, router: w.open(r.options, found)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.chosen != nil {
		_ = r.chosen.router.Close()
	}
	r.chosen, r.doubtful, r.beside = c, false, nil
	r.tellLabels(c.router)
	close(r.changed)
	r.changed = make(chan struct{})
	return c
}

// filesOf tells whether sockets are still the same files.
func filesOf(paths []string) []fileID {
	ids := make([]fileID, len(paths))
	for i, p := range paths {
		ids[i] = stat(p).file
	}
	return ids
}

// alive says whether somebody still listens on a socket of f. One that is in the kernel's table is not
// connected to: a daemon that hangs has few places in its queue.
func alive(f Found) bool {
	heard := readListening()
	if slices.ContainsFunc(f.Sockets, func(s Socket) bool { return heard.on(s.Path) }) {
		return true
	}
	return slices.ContainsFunc(f.Sockets, func(s Socket) bool {
		conn, err := net.DialTimeout("unix", s.Path, askTime)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil || errors.Is(err, syscall.EAGAIN)
	})
}
