package program

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"vouch/routers"
)

// A record is what is known of one prefix's commands. Whether they did what they ought to is another
// matter.
type record struct {
	running map[string]bool   // by action: it has not ended; true: and is not waited for any more
	turn    map[string]uint64 // by action: when it was begun last
	failed  map[string]string // by action: why its last run in this process did
	last    *routers.Observation
}

// record gives the record of p, making it when it is new. r.mu must be held.
func (r *Router) record(p netip.Prefix) *record {
	rec := r.records[p]
	if rec == nil {
		rec = &record{running: map[string]bool{}, turn: map[string]uint64{}, failed: map[string]string{}}
		r.records[p] = rec
	}
	return rec
}

// begin notes that a command is about to run, and gives the prefix's service. None is begun while its
// like still runs, and nothing is announced while any change does, which may come to its end later. A
// withdraw waits for nobody but itself.
func (r *Router) begin(j job) (service string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.record(j.prefix)
	r.turns++
	rec.turn[j.action] = r.turns
	for _, other := range slices.Sorted(maps.Keys(rec.running)) {
		if other == j.action || j.action != actionDown && j.action != actionRead && other != actionRead {
			return "", routers.Errorf(routers.ErrBusy, "an earlier %s command still runs, and cannot be killed: end it by hand", other)
		}
	}
	rec.running[j.action] = false
	return r.services[j.prefix], nil
}

// giveUp notes that a command is not waited for any more.
func (r *Router) giveUp(j job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rec := r.record(j.prefix); rec.has(j.action) {
		rec.running[j.action] = true
	}
}

func (rec *record) has(action string) bool {
	_, ok := rec.running[action]
	return ok
}

// ended notes that a command is gone. What one did that was given up before is not known: others may
// have run meanwhile.
func (r *Router) ended(j job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.record(j.prefix)
	if rec.running[j.action] && j.action != actionRead {
		rec.last = doubtful(j.prefix, "a command "+j.action+" that had hung has ended")
	}
	delete(rec.running, j.action)
}

// remember notes what a change came to, which counts where nothing can be read.
func (r *Router) remember(e end, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := &routers.Observation{Prefix: e.prefix, Stage: routers.Configured, Degraded: e.want == routers.Degraded}
	switch {
	case err != nil:
		o = doubtful(e.prefix, strings.TrimPrefix(err.Error(), "program: "))
	case e.want == routers.Withdrawn:
		o = &routers.Observation{Prefix: e.prefix, Stage: routers.Absent}
	}
	rec := r.record(e.prefix)
	rec.last = o
	delete(rec.failed, e.action)
	if err != nil {
		rec.failed[e.action] = strings.TrimPrefix(err.Error(), "program: ")
	}
}

// failures gives why the last runs of a command failed, in the order of their prefixes.
func (r *Router) failures(action string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, p := range slices.SortedFunc(maps.Keys(r.records), netip.Prefix.Compare) {
		if why := r.records[p].failed[action]; why != "" {
			all = append(all, why)
		}
	}
	return all
}

// doubtful is what is told of a prefix of which nothing is known: in no way as wanted.
func doubtful(p netip.Prefix, why string) *routers.Observation {
	return &routers.Observation{Prefix: p, Stage: routers.Configured, Broken: true, Detail: "not known: " + why}
}

// recall says what the commands of this process came to.
func (r *Router) recall(ps []netip.Prefix) []routers.Observation {
	r.mu.Lock()
	defer r.mu.Unlock()
	os := make([]routers.Observation, len(ps))
	for i, p := range ps {
		rec := r.record(p)
		switch {
		case len(rec.running) > 0:
			os[i] = *doubtful(p, "a command "+strings.Join(slices.Sorted(maps.Keys(rec.running)), " and ")+" still runs")
		case rec.last == nil:
			os[i] = *doubtful(p, "there is no read command, and this process has run none: what an earlier run left may be there")
		default:
			os[i] = *rec.last
		}
	}
	return os
}
