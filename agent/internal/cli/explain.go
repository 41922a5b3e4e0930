package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vouch/agent/internal/decide"
	"vouch/agent/internal/health"
	"vouch/agent/internal/state"
	"vouch/routers"
)

// An Explanation is what "vouch explain --json" prints.
type Explanation struct {
	Service state.Service `json:"service"`
	Router  state.Router  `json:"router"`
	Next    []string      `json:"next"` // what happens next, for people
}

func (a *app) explainCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain SERVICE",
		Short: "Say why a service's prefixes are as they are, and what happens next",
		Long: `Says why a service's prefixes ought to be announced, degraded or withdrawn: the rules in their order of
precedence, the one that decides, the checks behind it, and since when. Then what the
routing table says, and what happens next.`,
		Example:     "  vouch explain resolver",
		Annotations: statuses("0  the reason could be given, whatever it is", "2  wrong usage, or no such service", "3  no agent answers"),
		Args:        named, ValidArgsFunction: a.services,
		RunE: func(cmd *cobra.Command, args []string) error {
			snap, err := a.client().Status(cmd.Context())
			if err != nil {
				return exitOf(err)
			}
			s, err := pick(snap, args[0])
			if err != nil {
				return err
			}
			now := time.Now()
			if asJSON {
				return exitOf(printJSON(cmd.OutOrStdout(), Explanation{*s, snap.Router, next(s, now)}))
			}
			explainText(cmd.OutOrStdout(), s, &snap.Router, now, screenOf(cmd.OutOrStdout()).colour)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// explainText prints why the service is as it is.
func explainText(w io.Writer, s *state.Service, r *state.Router, now time.Time, colour bool) {
	fmt.Fprintf(w, "%s %s and is %s.\n", strong.on(state.Clean(s.Name), colour), ought(s.Decision.Want), verdictWords(s, now))
	title(w, "Why, in order of precedence", colour)
	table(w, "  ", colour, reasonRows(s.Decision, now))
	title(w, "What the checks say", colour)
	rows := make([][]cell, 0, len(s.Checks))
	for i := range s.Checks {
		rows = append(rows, checkStory(&s.Checks[i], now))
	}
	table(w, "  ", colour, rows)
	fmt.Fprintf(w, "  %s\n", countersText(s, now))
	if s.Soft != nil {
		fmt.Fprintf(w, "  %s\n", softCounters(s, now))
	}
	title(w, "What the table says", colour)
	if !r.OK {
		table(w, "  ", colour, [][]cell{{routerCell(r, now)}})
	}
	rows = nil
	told := causesOf(r)
	for i := range s.Prefixes {
		rows = append(rows, prefixStory(&s.Prefixes[i], now, told))
		for _, q := range lacking(&s.Prefixes[i]) {
			rows = append(rows, []cell{c(""), painted("not to "+q.Name, warned), c(""), painted(lack(&q), warned)})
		}
	}
	table(w, "  ", colour, rows)
	title(w, "What happens next", colour)
	for _, line := range next(s, now) {
		fmt.Fprintf(w, "  %s\n", state.Clean(line))
	}
}

func title(w io.Writer, text string, colour bool) {
	fmt.Fprintf(w, "\n%s\n", strong.on(text, colour))
}

// ought says what follows from a want.
func ought(w routers.Want) string {
	if w == routers.Keep {
		return "stays as it is, because nothing is decided yet,"
	}
	return "ought to be " + w.String()
}

func verdictWords(s *state.Service, now time.Time) string {
	text := s.Verdict.String()
	if !s.Since.IsZero() {
		text += " (" + since(s.Since, now) + ")"
	}
	return text
}

// reasonRows lists every rule and marks the one that decides; others that apply are outranked by it.
func reasonRows(d decide.Decision, now time.Time) [][]cell {
	var rows [][]cell
	for i, r := range d.Reasons {
		mark, answer, p := "", "no", faint
		switch {
		case r.Decides:
			mark, answer, p = "=>", "decides: "+decidedWords(d.Want), strong
		case r.Applies:
			answer = "outranked"
		}
		text := r.Text
		if r.Applies && !r.Since.IsZero() {
			text += " (" + since(r.Since, now) + ")"
		}
		rows = append(rows, paintedRow(p, fmt.Sprintf("%2s %d.", mark, i+1), r.Rule, answer, text))
	}
	return rows
}

func decidedWords(w routers.Want) string {
	if w == routers.Keep {
		return "stays as it is"
	}
	return w.String()
}

func checkStory(k *state.Check, now time.Time) []cell {
	row := checkRow("", k, now)
	when := "never ran"
	if !k.Since.IsZero() {
		when = since(k.Since, now)
	}
	return []cell{row[0], row[1], c(when), row[4]}
}

func countersText(s *state.Service, now time.Time) string {
	text := fmt.Sprintf("in a row: %s (rise %d), %s (fall %d); ",
		count(s.Good, "good round", "good rounds"), s.Rise, count(s.Bad, "bad round", "bad rounds"), s.Fall)
	if s.LastRound.IsZero() {
		return text + "no round yet"
	}
	text += fmt.Sprintf("round %d was %s ago", s.Rounds, age(s.LastRound, now))
	if s.HoldUntil.After(now) {
		text += "; held down " + until(s.HoldUntil, now)
	}
	return text
}

// softCounters tells how the checks that can only degrade it stand.
func softCounters(s *state.Service, now time.Time) string {
	f := s.Soft
	text := fmt.Sprintf("of those that only degrade it: %s, %s", count(f.Good, "good round", "good rounds"), count(f.Bad, "bad round", "bad rounds"))
	if f.HoldUntil.After(now) {
		text += "; held degraded " + until(f.HoldUntil, now)
	}
	return text
}

func prefixStory(p *state.Prefix, now time.Time, told causes) []cell {
	stage := stageText(p)
	if !p.Since.IsZero() {
		stage += " (" + since(p.Since, now) + ")"
	}
	read := "never read"
	if !p.Read.IsZero() {
		read = "read " + age(p.Read, now) + " ago"
	}
	bare := *p
	bare.Peers = reachedPeers(p) // the others have lines of their own
	note := wanted(p.Want, prefixNote(&bare, now, told))
	if p.Diverged.IsZero() && p.Want != routers.Keep && p.Stage != routers.Unknown {
		note = joined("as it ought to be", note)
	}
	return []cell{c(p.Prefix), painted(stage, notePaint(p)), c(read), painted(note, notePaint(p))}
}

func reachedPeers(p *state.Prefix) []routers.Peer {
	return slices.DeleteFunc(slices.Clone(p.Peers), func(q routers.Peer) bool { return q.Stage != routers.Advertised })
}

func joined(a, b string) string {
	if b == "" {
		return a
	}
	return a + "; " + b
}

// next says what will happen, and what has to happen for a change.
func next(s *state.Service, now time.Time) []string {
	lines := []string{nextOf(s, now)}
	for i := range s.Prefixes {
		p := &s.Prefixes[i]
		if p.Diverged.IsZero() {
			continue
		}
		when := "at once"
		if p.Next.After(now) {
			when = "at " + clock(p.Next, now) + ", in " + span(p.Next.Sub(now))
		}
		lines = append(lines, fmt.Sprintf("%s is asked to be %s again %s, until the table says so.", p.Prefix, p.Want, when))
	}
	return lines
}

func nextOf(s *state.Service, now time.Time) string {
	switch {
	case s.Removed:
		return "Its prefixes go; once the table says that they are absent, the service is forgotten."
	case s.Drain != nil && s.Drain.Until.IsZero():
		return `It stays withdrawn until somebody says "vouch resume ` + s.Name + `"` + afterDrain(s)
	case s.Drain != nil:
		return "At " + clock(s.Drain.Until, now) + ", in " + span(s.Drain.Until.Sub(now)) + ", the drain ends" + afterDrain(s)
	case isUp(s):
		return fmt.Sprintf("%s%s After %s in a row it is withdrawn.", serving(s), softNext(s, now), rounds(s.Fall-s.Bad, s.Bad, "bad"))
	}
	text := ""
	if s.Decision.Want == routers.Keep {
		text = "Not decided yet: what is stays as it is. "
	}
	text += rising("It is good again", "", s.Rise, s.Good, s.HoldUntil, now) + " it is announced."
	if s.Verdict == health.Unknown {
		text += fmt.Sprintf(" After %s in a row it is withdrawn.", rounds(s.Fall-s.Bad, s.Bad, "bad"))
	}
	return text
}

// rising says what it takes to rise: rounds of the checks that of names, if any, or what enough says, and
// the end of a hold-down.
func rising(enough, of string, rise, had int, held, now time.Time) string {
	text := enough
	if more := rise - had; more > 0 {
		text = fmt.Sprintf("After %s in a row%s", rounds(more, had, "good"), of)
	}
	if held.After(now) {
		text += ", and not before " + clock(held, now) + " (in " + span(held.Sub(now)) + "),"
	}
	return text
}

// softNext says what it takes for a service that is up to be degraded, or to be no longer so.
func softNext(s *state.Service, now time.Time) string {
	const those = "the checks that degrade it"
	switch f := s.Soft; {
	case f == nil:
		return ""
	case s.Verdict == health.Degraded:
		text := rising("Its checks are good again", " of "+those, s.Rise, f.Good, f.HoldUntil, now)
		return " " + strings.TrimSuffix(text, ",") + ", it is announced as usual."
	default:
		return fmt.Sprintf(" After %s in a row of %s, it is degraded.", rounds(s.Fall-f.Bad, f.Bad, "bad"), those)
	}
}

// serving says what becomes of a service that is up.
func serving(s *state.Service) string {
	var kept, missing []string
	for i := range s.Prefixes {
		switch p := &s.Prefixes[i]; {
		case p.Want == routers.Keep:
			kept = append(kept, p.Prefix)
		case p.Want != routers.Withdrawn && (p.Stage <= routers.Absent || !p.Diverged.IsZero()):
			missing = append(missing, p.Prefix)
		}
	}
	so := s.Decision.Want.String()
	switch {
	case len(kept) > 0:
		return "Not decided yet of " + strings.Join(kept, ", ") +
			": it stays as it is until good rounds confirm that the service is up, and is " + so + " then."
	case len(missing) > 0:
		return "It ought to be " + so + ", which the table does not say of " + strings.Join(missing, ", ") + "."
	}
	return "It stays " + so + "."
}

func afterDrain(s *state.Service) string {
	switch s.Verdict {
	case health.Up:
		return "; it is up, so it is announced then."
	case health.Degraded:
		return "; it is degraded, so it is announced in the worse way then."
	}
	return "; it is " + s.Verdict.String() + ", so it stays withdrawn then until its checks are good."
}

// rounds says "2 more bad rounds", or "3 bad rounds" when none came yet.
func rounds(n, had int, kind string) string {
	n = max(n, 1)
	more, plural := "", "s"
	if had > 0 {
		more = "more "
	}
	if n == 1 {
		plural = ""
	}
	return fmt.Sprintf("%d %s%s round%s", n, more, kind, plural)
}
