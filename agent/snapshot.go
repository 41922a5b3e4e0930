package agent

import (
	"maps"
	"slices"
	"time"

	"vouch/agent/internal/reconcile"
	"vouch/agent/internal/state"
	"vouch/routers"
)

// Snapshot gives all that is known now, sharing nothing with the core that may still change. It is
// made when it is asked for, because it is asked for much less often than something changes.
func (c *core) Snapshot() *state.Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	snap := c.head
	snap.Time = time.Now()
	snap.Services = make([]state.Service, 0, len(c.services))
	for _, name := range slices.Sorted(maps.Keys(c.services)) {
		snap.Services = append(snap.Services, c.snapshotOf(c.services[name]))
	}
	snap.Problems = []string{}
	for _, about := range slices.Sorted(maps.Keys(c.problems)) {
		snap.Problems = append(snap.Problems, c.problems[about])
	}
	snap.Problems = append(snap.Problems, c.foundAs(routers.Failing)...)
	snap.Warnings = c.warnings()
	return &snap
}

func (c *core) snapshotOf(s *service) state.Service {
	out := state.Service{Name: s.name, Verdict: s.verdict(), Since: s.since(), Good: s.st.Good, Bad: s.st.Bad,
		Rise: s.cfg.Health.Rise, Fall: s.cfg.Health.Fall, Rounds: s.rounds, LastRound: s.st.LastRound, HoldUntil: s.st.HoldUntil,
		Removed: s.removed, Decision: s.decision, Checks: slices.Clone(s.checks), Prefixes: []state.Prefix{}}
	if degradable(&s.cfg) {
		out.Soft = &state.Soft{Verdict: s.soft.Verdict, Since: s.soft.Since, Good: s.soft.Good, Bad: s.soft.Bad, HoldUntil: s.soft.HoldUntil}
	}
	if s.drain != nil {
		d := *s.drain
		out.Drain = &d
	}
	for _, p := range s.managed() {
		out.Prefixes = append(out.Prefixes, c.prefix(p).snapshot(c.head.Router.Goal))
	}
	return out
}

// snapshot gives what is shown of the prefix. A want that no reading was measured against yet is measured against
// the last one: nothing passes for settled because nobody has looked.
func (ps *prefix) snapshot(goal routers.Stage) state.Prefix {
	out := state.Prefix{Prefix: ps.Prefix.String(), Want: ps.want, Stage: ps.Stage, Degraded: ps.Degraded, Broken: ps.Broken, Peers: peers(ps.Peers),
		Detail: state.Clean(ps.Detail), Read: ps.read, Since: ps.since}
	if ps.out == nil && ps.Stage != routers.Unknown && !reconcile.Met(ps.want, ps.Observation, goal) {
		out.Diverged = ps.wantSince
		if ps.since.After(ps.wantSince) {
			out.Diverged = ps.since
		}
	}
	if o := ps.out; o != nil {
		out.Diverged, out.Doing, out.Attempts, out.Next = o.Since, o.Doing, o.Attempts, o.Next
		if o.Err != nil {
			out.Error = state.Clean(o.Err.Error())
		}
	}
	return out
}

// peers gives the peers with texts that are fit to be shown.
func peers(from []routers.Peer) []routers.Peer {
	ps := slices.Clone(from)
	for i := range ps {
		ps[i].Name, ps[i].Detail = state.Clean(ps[i].Name), state.Clean(ps[i].Detail)
	}
	return ps
}
