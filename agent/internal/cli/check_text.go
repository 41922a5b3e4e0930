package cli

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"vouch/agent/internal/health"
	"vouch/agent/internal/state"
	"vouch/checks"
)

// checkText prints the Nagios line and then the details. The bar that begins the performance data is
// in no other place: a plugin's reader looks for it on every line.
func checkText(w io.Writer, r *CheckReport, colour bool) {
	var details bytes.Buffer
	checkDetails(&details, r, colour)
	fmt.Fprintf(w, "VOUCH %s - %s", nagios[r.ExitCode()], plainLine(headline(r)))
	if perf := performance(r); perf != "" {
		fmt.Fprintf(w, " | %s", perf)
	}
	fmt.Fprintf(w, "\n%s", strings.ReplaceAll(details.String(), "|", "/"))
}

func checkDetails(w io.Writer, r *CheckReport, colour bool) {
	if r.Only {
		onlyDetails(w, r, colour)
		return
	}
	table(w, "", colour, [][]cell{{c("router"), checkedRouter(&r.Router)}})
	told := causesOf(&r.Router)
	for i := range r.Services {
		s := &r.Services[i]
		table(w, "", colour, [][]cell{{painted(s.Name, strong), painted(s.outcome(), outcomePaint(s))}})
		lines, traces := checkedRows("", s, r.Time)
		for j := range s.Prefixes {
			p := &s.Prefixes[j]
			lines = append(lines, []cell{c(p.Prefix), c(stageText(p)), c("-"), c(prefixNote(p, r.Time, told))})
		}
		withTraces(w, "  ", colour, lines, traces)
	}
}

// onlyDetails tells of checks without their services.
func onlyDetails(w io.Writer, r *CheckReport, colour bool) {
	var lines [][]cell
	var traces [][]TraceLine
	for i := range r.Services {
		rows, more := checkedRows(r.Services[i].Name+"/", &r.Services[i], r.Time)
		lines, traces = append(lines, rows...), append(traces, more...)
	}
	withTraces(w, "", colour, lines, traces)
}

// checkedRows gives a row for each check, and its trace.
func checkedRows(prefix string, s *CheckedService, now time.Time) (rows [][]cell, traces [][]TraceLine) {
	for i := range s.Checks {
		row := checkRow(prefix, &s.Checks[i].Check, now)
		rows = append(rows, []cell{row[0], row[1], row[3], row[4]})
		traces = append(traces, s.Checks[i].Trace)
	}
	return rows, traces
}

// withTraces prints rows as table does, and below each of the first ones its trace.
func withTraces(w io.Writer, indent string, colour bool, rows [][]cell, traces [][]TraceLine) {
	var b bytes.Buffer
	table(&b, indent, colour, rows)
	i := 0
	for line := range strings.Lines(b.String()) {
		fmt.Fprint(w, line)
		if i < len(traces) {
			table(w, indent+"    ", colour, traceRows(traces[i]))
		}
		i++
	}
}

// traceRows gives each line with its sign, and with its time where that is another one than before.
func traceRows(trace []TraceLine) (rows [][]cell) {
	for _, l := range trace {
		at, p := fmt.Sprintf("+%.1fms", float64(l.At)/float64(time.Millisecond)), plain
		if l.Direction == checks.Note {
			p = faint
		}
		for text := range strings.SplitSeq(l.Text, "\n") {
			rows = append(rows, []cell{painted(at, faint), painted(string(l.Direction)+" "+text, p)})
			at = ""
		}
	}
	return rows
}

func checkedRouter(r *state.Router) cell {
	if r.OK {
		return painted(r.Name+": read", good)
	}
	return painted(r.Name+": "+r.Error, bad)
}

func outcomePaint(s *CheckedService) paint {
	switch {
	case s.healthy():
		return good
	case s.Outcome == health.Bad:
		return bad
	}
	return warned
}

// headline says what was found, the services that are not healthy first.
func headline(r *CheckReport) string {
	const most = 3 // healthy services that are told one by one
	var ill, fine []string
	for i := range r.Services {
		if s := &r.Services[i]; r.Only {
			ill = append(ill, s.Name+": "+onlyText(s))
		} else if s.healthy() {
			fine = append(fine, s.Name+": "+healthyText(s))
		} else {
			ill = append(ill, s.Name+": "+illText(s))
		}
	}
	if n := len(fine); n > most {
		fine = []string{fmt.Sprintf("%d services healthy", n)}
	}
	parts := slices.Concat(ill, fine)
	if len(parts) == 0 {
		parts = []string{"no services are configured"}
	}
	if !r.Router.OK && !r.Only {
		parts = append(parts, r.Router.Name+": "+r.Router.Error)
	}
	return strings.Join(parts, "; ")
}

func healthyText(s *CheckedService) string {
	ok := 0
	for i := range s.Checks {
		if s.Checks[i].Reason == "" {
			ok++
		}
	}
	return joinedBy(", ", fmt.Sprintf("%d of %s ok", ok, count(len(s.Checks), "check", "checks")), stages(s))
}

func illText(s *CheckedService) string {
	bare := state.Service{Checks: make([]state.Check, len(s.Checks))}
	for i := range s.Checks {
		bare.Checks[i] = s.Checks[i].Check
	}
	return joinedBy(", ", s.outcome(), failing(&bare, true), stages(s))
}

// onlyText says how each of the checks is that were asked for.
func onlyText(s *CheckedService) string {
	texts := make([]string, len(s.Checks))
	for i := range s.Checks {
		k := &s.Checks[i]
		texts[i] = k.Name + " " + k.Status.String()
		if k.Reason != "" {
			texts[i] += " (" + string(k.Reason) + ")"
		}
	}
	return strings.Join(texts, ", ")
}

func stages(s *CheckedService) string {
	texts := make([]string, len(s.Prefixes))
	for i := range s.Prefixes {
		p := &s.Prefixes[i]
		texts[i] = p.Prefix + " " + strings.Replace(stageText(p), ",", " and", 1)
	}
	return strings.Join(texts, ", ")
}

func joinedBy(sep string, texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(t string) bool { return t == "" }), sep)
}

// nagiosMax is how long a text may be that monitoring shows in one line; the details follow it.
const nagiosMax = 400

// plainLine keeps a text from being taken for performance data, and from growing without end.
func plainLine(s string) string {
	return cut(strings.ReplaceAll(state.Clean(s), "|", "/"), nagiosMax)
}

// performance gives label=value;warn;crit;min;max for each check that ran, in seconds.
func performance(r *CheckReport) string {
	var out []string
	for _, s := range r.Services {
		for _, k := range s.Checks {
			label := k.Name
			if len(r.Services) > 1 {
				label = s.Name + "." + k.Name
			}
			if !k.Last.IsZero() {
				out = append(out, fmt.Sprintf("%s=%.4fs;;;0;%g", label, k.Took.Seconds(), k.Timeout.Seconds()))
			}
		}
	}
	return strings.Join(out, " ")
}
