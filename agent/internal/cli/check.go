package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vouch/agent/internal/config"
	"vouch/agent/internal/health"
	"vouch/agent/internal/state"
)

// A CheckReport is what one round of checks and one reading of the router came to.
type CheckReport struct {
	Time     time.Time        `json:"time"`
	Node     string           `json:"node"`
	File     string           `json:"file"`
	Router   state.Router     `json:"router"`
	Services []CheckedService `json:"services"` // by name
}

// A CheckedService is one service's round. Its prefixes have no want: one round decides nothing.
type CheckedService struct {
	Name     string         `json:"name"`
	Outcome  health.Outcome `json:"-"` // of the checks that can withdraw it
	Soft     health.Outcome `json:"-"` // of those that can only degrade it; good without any
	Checks   []CheckedCheck `json:"checks"`
	Prefixes []state.Prefix `json:"prefixes"`
}

// A CheckedCheck is one check's result.
type CheckedCheck struct {
	state.Check
	Timeout time.Duration `json:"timeout_ns"`
}

// healthy says whether the round would announce the service as usual.
func (s *CheckedService) healthy() bool { return s.Outcome == health.Good && s.Soft == health.Good }

// outcome is the word for both outcomes: degraded is a good round but for the checks that degrade.
func (s *CheckedService) outcome() string {
	switch {
	case s.Outcome != health.Good:
		return s.Outcome.String()
	case s.Soft == health.Bad:
		return health.Degraded.String()
	}
	return s.Soft.String()
}

// MarshalJSON adds the outcome as its word.
func (s CheckedService) MarshalJSON() ([]byte, error) {
	type bare CheckedService
	return json.Marshal(struct {
		bare
		Outcome string `json:"outcome"`
	}{bare(s), s.outcome()})
}

// ExitCode is 1 when a service's round was not good or degraded it, else 3 when the router could not be read, else 0.
func (r *CheckReport) ExitCode() int {
	switch {
	case slices.ContainsFunc(r.Services, func(s CheckedService) bool { return !s.healthy() }):
		return ExitUnhealthy
	case !r.Router.OK:
		return ExitNoAgent
	}
	return ExitOK
}

// nagios are the words of the Nagios plugin guidelines for the exit statuses.
var nagios = [...]string{ExitOK: "OK", ExitUnhealthy: "WARNING", ExitUsage: "CRITICAL", ExitNoAgent: "UNKNOWN"}

func (a *app) checkCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check [SERVICE...]",
		Short: "Run one round of checks here and now, and change nothing",
		Long: `Runs one round of the configured checks in this process and reads the routing table once. It
needs no agent and disturbs none: it touches no state and asks the router for nothing.

The first line is for Nagios and its relatives: status word, what was found, and the time
of each check as performance data. The status word follows the exit status.`,
		Example: `  vouch check
  vouch check resolver --json
  vouch check --config /etc/vouch/new.toml      # before it goes into force`,
		Annotations: statuses("0  OK: healthy", "1  WARNING: a service is not healthy, or degraded", "2  CRITICAL: wrong usage, or the configuration is not valid",
			"3  UNKNOWN: healthy, but the router could not be read"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.check(cmd, args, asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) check(cmd *cobra.Command, names []string, asJSON bool) error {
	w := cmd.OutOrStdout()
	report, err := a.round(cmd, names)
	if err != nil {
		return noReport(cmd, err, asJSON)
	}
	if asJSON {
		err = printJSON(w, report)
	} else {
		checkText(w, report, screenOf(w).colour)
	}
	if code := report.ExitCode(); err == nil && code != ExitOK {
		return &exitError{code: code}
	}
	return exitOf(err)
}

// A CheckFailure is what "vouch check --json" prints when no round could be run.
type CheckFailure struct {
	Error    string   `json:"error"`    // the first problem
	Problems []string `json:"problems"` // all of them
}

// noReport says once why no round could be run: in the Nagios line, or as JSON. Only what does not
// fit into the line is on standard error.
func noReport(cmd *cobra.Command, err error, asJSON bool) error {
	exit := &exitError{code: ExitUnhealthy}
	_ = errors.As(err, &exit)
	w, problems := cmd.OutOrStdout(), strings.Split(err.Error(), "\n")
	first, more := problems[0], len(problems)-1
	if asJSON {
		if err := printJSON(w, CheckFailure{first, problems}); err != nil {
			return exitOf(err)
		}
		return &exitError{code: exit.code}
	}
	if more > 0 {
		first += " (and " + count(more, "more problem", "more problems") + ")"
		fmt.Fprintln(cmd.ErrOrStderr(), err)
	}
	fmt.Fprintf(w, "VOUCH %s - %s\n", nagios[exit.code], plainLine(first))
	return &exitError{code: exit.code}
}

func (a *app) round(cmd *cobra.Command, names []string) (*CheckReport, error) {
	cfg, err := a.load()
	if err != nil {
		return nil, err
	}
	if err := known(cfg, names); err != nil {
		return nil, err
	}
	report, err := a.deps.Check(cmd.Context(), cfg, names)
	return report, runError(err)
}

// known says which services there are when one of the names is none of them.
func known(cfg *config.Config, names []string) error {
	all := make([]string, len(cfg.Services))
	for i, s := range cfg.Services {
		all[i] = s.Name
	}
	for _, n := range names {
		if !slices.Contains(all, n) {
			return &exitError{ExitUsage, fmt.Errorf("there is no service %q in %s; there are: %s", n, cfg.File, strings.Join(all, ", "))}
		}
	}
	return nil
}

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
	table(w, "", colour, [][]cell{{c("router"), checkedRouter(&r.Router)}})
	told := causesOf(&r.Router)
	for i := range r.Services {
		s := &r.Services[i]
		table(w, "", colour, [][]cell{{painted(s.Name, strong), painted(s.outcome(), outcomePaint(s))}})
		var lines [][]cell
		for j := range s.Checks {
			row := checkRow("", &s.Checks[j].Check, r.Time)
			lines = append(lines, []cell{row[0], row[1], row[3], row[4]})
		}
		for j := range s.Prefixes {
			p := &s.Prefixes[j]
			lines = append(lines, []cell{c(p.Prefix), c(stageText(p)), c("-"), c(prefixNote(p, r.Time, told))})
		}
		table(w, "  ", colour, lines)
	}
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
		if s := &r.Services[i]; s.healthy() {
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
	if !r.Router.OK {
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
