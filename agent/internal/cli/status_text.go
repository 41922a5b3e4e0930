package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"vouch/agent/internal/health"
	"vouch/agent/internal/state"
	"vouch/checks"
	"vouch/routers"
)

// undecided explains the want keep.
const undecided = "not decided yet: stays as it is"

// settled says whether all of the snapshot is as it ought to be: every service up, nothing drained,
// undecided, diverged or unread, nothing that needs attention.
func settled(s *state.Snapshot) bool {
	if !s.Ready || s.Stopping || !s.Router.OK || s.Config.Error != "" || len(s.Problems) > 0 {
		return false
	}
	return !slices.ContainsFunc(s.Services, func(v state.Service) bool { return !well(&v) })
}

func well(s *state.Service) bool {
	if s.Verdict != health.Up || s.Drain != nil || s.Removed {
		return false
	}
	return !slices.ContainsFunc(s.Prefixes, func(p state.Prefix) bool {
		return !p.Diverged.IsZero() || p.Want == routers.Keep || p.Stage == routers.Unknown
	})
}

// statusText prints the snapshot for people.
func statusText(w io.Writer, s *state.Snapshot, now time.Time, colour bool) {
	agentText(w, s, now, colour)
	if len(s.Services) == 0 {
		fmt.Fprintln(w, "\nno services are configured")
		return
	}
	services := [][]cell{heading("SERVICE", "VERDICT", "FOR", "WANT", "NOTE")}
	prefixes, told := [][]cell{heading("PREFIX", "SERVICE", "WANT", "STAGE", "FOR", "NOTE")}, causesOf(&s.Router)
	checked := [][]cell{heading("CHECK", "STATUS", "FOR", "TOOK", "NOTE")}
	for i := range s.Services {
		v := &s.Services[i]
		services = append(services, serviceRow(v, now))
		for j := range v.Prefixes {
			prefixes = append(prefixes, prefixRow(v, &v.Prefixes[j], s.Router.Goal, now, told))
		}
		for j := range v.Checks {
			checked = append(checked, checkRow(v.Name+"/", &v.Checks[j], now))
		}
	}
	for _, rows := range [][][]cell{services, prefixes, checked} {
		if len(rows) > 1 {
			fmt.Fprintln(w)
			table(w, "", colour, rows)
		}
	}
}

// agentText prints what is not of one service: the agent, the router, the configuration, problems, warnings.
func agentText(w io.Writer, s *state.Snapshot, now time.Time, colour bool) {
	stage, p := "ready", good
	switch {
	case s.Stopping:
		stage, p = "stopping", warned
	case !s.Ready:
		stage, p = "starting: the router has not been read yet", warned
	}
	fmt.Fprintf(w, "vouch %s on %s, pid %d, up %s: %s\n", state.Clean(s.Version), state.Clean(s.Node), s.PID, age(s.Started, now), p.on(stage, colour))
	rows := [][]cell{{c("router"), routerCell(&s.Router, now)},
		{c("config"), c(fmt.Sprintf("%s, loaded %s ago", s.Config.File, age(s.Config.Loaded, now)))}}
	for _, line := range refusal(s.Config.Error) {
		rows = append(rows, []cell{c(""), painted(line, warned)})
	}
	for _, text := range s.Problems {
		if !isReload(text, s.Config.Error) {
			rows = append(rows, []cell{c("problem"), painted(text, warned)})
		}
	}
	for _, text := range s.Warnings {
		rows = append(rows, []cell{c("warning"), c(text)})
	}
	table(w, "", colour, rows)
}

// refusal tells why the last reload was refused, if it was, in so few lines that the verdicts below
// stay in sight.
func refusal(why string) []string {
	const most = 3
	if why == "" {
		return nil
	}
	lines := strings.Split("the last reload was refused, what was loaded before stands: "+why, "\n")
	if more := len(lines) - most; more > 0 {
		lines = append(lines[:most], "and "+count(more, "more problem", "more problems")+": see vouch validate")
	}
	return lines
}

// isReload says whether a problem is the refused reload, which the line of the configuration tells
// in full.
func isReload(problem, refused string) bool {
	first, _, _ := strings.Cut(refused, "\n")
	return first != "" && strings.Contains(state.Clean(problem), state.Clean(first))
}

func routerCell(r *state.Router, now time.Time) cell {
	switch {
	case r.OK:
		return c(fmt.Sprintf("%s, read %s ago", r.Name, age(r.Read, now)))
	case r.Read.IsZero() && r.Error == "":
		return painted(r.Name+", not read yet", warned)
	}
	last := "never read"
	if !r.Read.IsZero() {
		last = "last read " + clock(r.Read, now)
	}
	return painted(fmt.Sprintf("%s cannot be read (%s; %s): %s", r.Name, since(r.Since, now), last, r.Error), bad)
}

func serviceRow(s *state.Service, now time.Time) []cell {
	return []cell{painted(s.Name, strong), verdictCell(s), c(age(s.Since, now)), wantCell(s.Decision.Want), c(wanted(s.Decision.Want, serviceNote(s, now)))}
}

func verdictCell(s *state.Service) cell {
	p := warned
	switch s.Verdict {
	case health.Up:
		p = good
	case health.Down:
		p = bad
	}
	return painted(s.Verdict.String(), p)
}

// wanted puts what the want keep means before a note.
func wanted(w routers.Want, note string) string {
	if w == routers.Keep {
		return joined(undecided, note)
	}
	return note
}

func wantCell(w routers.Want) cell {
	if w == routers.Announced {
		return c(w.String())
	}
	return painted(w.String(), warned)
}

// serviceNote says in short what stands in the way, or is on its way.
func serviceNote(s *state.Service, now time.Time) string {
	var notes []string
	if s.Removed {
		notes = append(notes, "removed from the configuration")
	}
	if s.Drain != nil {
		notes = append(notes, drainNote(s, now))
	}
	if text := failing(s, s.Verdict == health.Degraded); text != "" && s.Verdict != health.Up {
		notes = append(notes, text)
	}
	switch {
	case s.Bad > 0 && isUp(s):
		notes = append(notes, ofRounds(s.Bad, s.Fall, "bad round", ""))
	case s.Good > 0 && !isUp(s):
		notes = append(notes, ofRounds(s.Good, s.Rise, "good round", ""))
	}
	if s.HoldUntil.After(now) {
		notes = append(notes, "held down "+until(s.HoldUntil, now))
	}
	if s.Soft != nil && isUp(s) {
		notes = append(notes, softNotes(s, now)...)
	}
	return strings.Join(notes, "; ")
}

// isUp says whether the checks that can withdraw the service say that it is up, degraded or not.
func isUp(s *state.Service) bool { return s.Verdict == health.Up || s.Verdict == health.Degraded }

// softNotes say how far a service that is up is from being degraded, or from no longer being so.
func softNotes(s *state.Service, now time.Time) (notes []string) {
	f := s.Soft
	switch {
	case f.Bad > 0 && s.Verdict == health.Up:
		notes = append(notes, ofRounds(f.Bad, s.Fall, "bad round", "to be degraded"))
	case f.Good > 0 && s.Verdict == health.Degraded:
		notes = append(notes, ofRounds(f.Good, s.Rise, "good round", ""))
	}
	if f.HoldUntil.After(now) {
		notes = append(notes, "held degraded "+until(f.HoldUntil, now))
	}
	return notes
}

// ofRounds says "2 of 3 bad rounds to be degraded": had of those that it takes.
func ofRounds(had, takes int, kind, what string) string {
	return strings.TrimSpace(fmt.Sprintf("%d of %s %s", min(had, takes), count(takes, kind, kind+"s"), what))
}

func drainNote(s *state.Service, now time.Time) string {
	text := "drained by " + s.Drain.By + " "
	if s.Drain.Until.IsZero() {
		text += "until it is resumed"
	} else {
		text += until(s.Drain.Until, now)
	}
	if s.Drain.Reason != "" {
		text += ": " + s.Drain.Reason
	}
	return text
}

// failing names the checks that count and are not ok: those that can withdraw, and with soft those that
// can only degrade too.
func failing(s *state.Service, soft bool) string {
	var names []string
	for i := range s.Checks {
		k := &s.Checks[i]
		if counts := k.OnFail == "withdraw" || k.OnFail == "degrade" && soft; counts && k.Status != checks.OK {
			names = append(names, fmt.Sprintf("%s %s (%s)", k.Name, k.Status, k.Reason))
		}
	}
	return strings.Join(names, ", ")
}

func prefixRow(s *state.Service, p *state.Prefix, goal routers.Stage, now time.Time, told causes) []cell {
	paint := plain
	switch {
	case !p.Diverged.IsZero():
		paint = bad
	case p.Stage == routers.Unknown:
		paint = warned
	case p.Degraded, p.Broken:
		paint = warned
	case p.Want == routers.Announced && p.Stage >= goal:
		paint = good
	}
	return []cell{c(p.Prefix), c(s.Name), wantCell(p.Want), painted(stageText(p), paint), c(age(p.Since, now)), painted(wanted(p.Want, prefixNote(p, now, told)), notePaint(p))}
}

// stageText names the stage, and the worse way if it is there in that one, or that it stands on nothing.
func stageText(p *state.Prefix) string {
	text := p.Stage.String()
	if p.Degraded {
		text += ", degraded"
	}
	if p.Broken {
		text += ", broken"
	}
	return text
}

func notePaint(p *state.Prefix) paint {
	if p.Diverged.IsZero() {
		return plain
	}
	return bad
}

// prefixNote says whom the prefix is sent to, or how it differs from what it ought to be and what is
// being done about that. A cause that was told of another prefix is not told again.
func prefixNote(p *state.Prefix, now time.Time, told causes) string {
	var notes []string
	if !p.Diverged.IsZero() {
		notes = append(notes, "DIVERGED for "+age(p.Diverged, now))
		notes = append(notes, doing(p, now)...)
	}
	why := p.Detail
	if !p.Diverged.IsZero() {
		why = fold(p.Error, p.Detail)
	}
	if to := (routers.Observation{Peers: p.Peers}).Reached(); len(to) > 0 {
		notes = append(notes, "to "+strings.Join(to, ", "))
	}
	if not := lacks(lacking(p), why); not != "" {
		notes = append(notes, "not to "+not)
	}
	if why != "" {
		notes = append(notes, told.once(p, why))
	}
	return strings.Join(notes, "; ")
}

// lacking gives the peers that a prefix which is there has not reached. One that is not there has
// reached nobody, which says nothing.
func lacking(p *state.Prefix) []routers.Peer {
	if p.Stage < routers.Configured || p.Want == routers.Withdrawn {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(p.Peers), func(q routers.Peer) bool { return q.Stage == routers.Advertised })
}

// lack says why a peer has the prefix not, or else how far it has come.
func lack(q *routers.Peer) string {
	if q.Detail != "" {
		return q.Detail
	}
	return q.Stage.String()
}

// doing says what is being done about a prefix that diverged, but not why.
func doing(p *state.Prefix, now time.Time) (notes []string) {
	if p.Doing != "" {
		notes = append(notes, p.Doing)
	}
	if p.Attempts > 0 {
		notes = append(notes, "asked "+count(p.Attempts, "time", "times"))
	}
	if p.Next.After(now) {
		notes = append(notes, "again in "+span(p.Next.Sub(now)))
	}
	return notes
}

func checkRow(prefix string, k *state.Check, now time.Time) []cell {
	p := warned
	switch k.Status {
	case checks.OK:
		p = good
	case checks.Failed:
		p = bad
	}
	note := k.Line()
	if only, ok := map[string]string{"warn": ", only warns", "degrade": ", only degrades"}[k.OnFail]; ok {
		note += only
		if k.Status == checks.Failed {
			p = warned
		}
	}
	took := "-"
	if !k.Last.IsZero() {
		took = fmt.Sprintf("%.1fms", float64(k.Took)/float64(time.Millisecond))
	}
	return []cell{c(prefix + k.Name), painted(k.Status.String(), p), c(age(k.Since, now)), c(took), c(note)}
}
