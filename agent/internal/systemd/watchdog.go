package systemd

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// watchInterval is how often loops are looked at when the service manager watches nothing.
const watchInterval = time.Second

// Beats is the registry of the loops that must make progress. It may be used concurrently.
type Beats struct {
	mu    sync.Mutex
	beats map[*Beat]struct{}
}

// A Beat is one loop's entry in the registry. It may be used concurrently.
type Beat struct {
	registry *Beats
	name     string
	limit    time.Duration
	last     time.Time // guarded by registry.mu; has a monotonic reading
}

// NewBeats gives an empty registry.
func NewBeats() *Beats { return &Beats{beats: make(map[*Beat]struct{})} }

// Register adds a loop which promises to beat at least once every limit. The registration counts as
// its first beat. Names need not be unique.
func (b *Beats) Register(name string, limit time.Duration) *Beat {
	e := &Beat{registry: b, name: name, limit: limit, last: time.Now()}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.beats[e] = struct{}{}
	return e
}

// Late names the loops that have not beaten within their limit, sorted.
func (b *Beats) Late(now time.Time) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]Beat, 0, len(b.beats))
	for e := range b.beats {
		all = append(all, *e)
	}
	return late(all, now)
}

// Beat says that the loop has made progress. It never blocks for long.
func (e *Beat) Beat() {
	e.registry.mu.Lock()
	defer e.registry.mu.Unlock()
	e.last = time.Now()
}

// Close takes the loop out of the registry: it has ended as it should.
func (e *Beat) Close() {
	e.registry.mu.Lock()
	defer e.registry.mu.Unlock()
	delete(e.registry.beats, e)
}

// late decides which of the beats are overdue at now.
func late(beats []Beat, now time.Time) []string {
	var names []string
	for _, e := range beats {
		if now.Sub(e.last) > e.limit {
			names = append(names, e.name)
		}
	}
	slices.Sort(names)
	return names
}

// A Watchdog pings the service manager as long as every loop makes progress.
type Watchdog struct {
	Beats    *Beats
	Notifier *Notifier
	// Late, if set, is called once each time a loop becomes late, with its name. It must not block.
	Late func(name string)
	// Failed, if set, is called once each time pings begin to fail.
	Failed func(error)

	timeout time.Duration // of the unit; 0: it has none
}

// NewWatchdog reads WATCHDOG_USEC and WATCHDOG_PID. Without them the Watchdog only watches. It gives
// an error when they are set and make no sense.
func NewWatchdog(b *Beats, n *Notifier) (*Watchdog, error) {
	d, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return nil, fmt.Errorf("read WATCHDOG_USEC: %w", err)
	}
	return &Watchdog{Beats: b, Notifier: n, timeout: d}, nil
}

// Interval is the time between two pings, a third of the unit's WatchdogSec so that one lost ping
// does no harm; one second when the unit has none.
func (w *Watchdog) Interval() time.Duration {
	if w.timeout == 0 {
		return watchInterval
	}
	return max(w.timeout/3, time.Millisecond)
}

// Run watches until ctx ends and then returns nil. When a loop is late it stops pinging, and goes on
// if that loop comes back. One that is still late an Interval later is taken to hang: the service manager
// is asked to act as if the pings had been missing for all of WatchdogSec (systemd 243), which is the sooner
// the longer the loop's own limit is.
func (w *Watchdog) Run(ctx context.Context) error {
	t := time.NewTicker(w.Interval())
	defer t.Stop()
	var told []string
	var failing, hung bool
	for {
		names := w.Beats.Late(time.Now())
		w.tell(names, told)
		hangs := slices.ContainsFunc(names, func(n string) bool { return slices.Contains(told, n) })
		told = names
		switch {
		case w.timeout == 0:
		case len(names) == 0:
			failing = w.sent(w.Notifier.Alive(), failing)
		case hangs && !hung:
			failing = w.sent(w.Notifier.Hung(), failing)
		}
		hung = hangs
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// tell reports those names that have not been told of already.
func (w *Watchdog) tell(names, told []string) {
	for _, n := range names {
		if w.Late != nil && !slices.Contains(told, n) {
			w.Late(n)
		}
	}
}

// sent takes in how a ping went, and says whether they fail now.
func (w *Watchdog) sent(err error, failing bool) bool {
	if err != nil && !failing && w.Failed != nil {
		w.Failed(err)
	}
	return err != nil
}
