package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vouch/agent/internal/config"
	"vouch/agent/internal/health"
	"vouch/agent/internal/state"
	"vouch/checks"
)

// CheckOptions say what to check.
type CheckOptions struct {
	Services []string    // the checks of these, with the router; empty: of all
	Only     []CheckName // if any: these checks alone, and the router is not read
	Trace    bool        // keep what the checks send and get
	// Ended is told of what is over: each check, and the router. It may be called concurrently, until the round is over.
	Ended func(CheckName)
}

// A CheckName is a check and the service that has it.
type CheckName struct{ Service, Check string }

// TheRouter stands for the reading of the router, which is no check.
var TheRouter = CheckName{"the router", ""}

// String is as --only takes it.
func (n CheckName) String() string { return strings.TrimSuffix(n.Service+"/"+n.Check, "/") }

// A CheckReport is what one round of checks and one reading of the router came to.
type CheckReport struct {
	Time     time.Time        `json:"time"`
	Node     string           `json:"node"`
	File     string           `json:"file"`
	Only     bool             `json:"only,omitempty"`  // only the checks that were asked for, and no router
	Router   state.Router     `json:"router,omitzero"` // zero with Only
	Services []CheckedService `json:"services"`        // by name
}

// A CheckedService is one service's round. Its prefixes have no want: one round decides nothing.
type CheckedService struct {
	Name     string         `json:"name"`
	Outcome  health.Outcome `json:"-"` // of the checks that can withdraw it; with CheckReport.Only, of those that ran
	Soft     health.Outcome `json:"-"` // of those that can only degrade it; good without any
	Checks   []CheckedCheck `json:"checks"`
	Prefixes []state.Prefix `json:"prefixes,omitempty"` // none with CheckReport.Only
}

// A CheckedCheck is one check's result.
type CheckedCheck struct {
	state.Check
	Timeout time.Duration `json:"timeout_ns"`
	Trace   []TraceLine   `json:"trace,omitzero"` // nil unless it was asked for
}

// A TraceLine is what a check told of its run at one moment: one or more lines without control characters.
type TraceLine struct {
	At        time.Duration    `json:"at_ns"` // since the check began
	Direction checks.Direction `json:"-"`
	Text      string           `json:"text"`
}

// MarshalJSON adds the direction as a word.
func (l TraceLine) MarshalJSON() ([]byte, error) {
	type bare TraceLine
	return json.Marshal(struct {
		bare
		Direction string `json:"direction"`
	}{bare(l), map[checks.Direction]string{checks.Sent: "sent", checks.Got: "got", checks.Note: "note"}[l.Direction]})
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

// ExitCode is 1 when a service's round was not good or degraded it, else 3 when the router could not be read, or
// nothing could be announced by it, else 0.
func (r *CheckReport) ExitCode() int {
	switch {
	case slices.ContainsFunc(r.Services, func(s CheckedService) bool { return !s.healthy() }):
		return ExitUnhealthy
	case !r.Router.OK && !r.Only:
		return ExitNoAgent
	}
	return ExitOK
}

// nagios are the words of the Nagios plugin guidelines for the exit statuses.
var nagios = [...]string{ExitOK: "OK", ExitUnhealthy: "WARNING", ExitUsage: "CRITICAL", ExitNoAgent: "UNKNOWN"}

// checkFlags are the flags of "vouch check".
type checkFlags struct {
	only          []string
	verbose, json bool
}

func (a *app) checkCmd() *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use:   "check [SERVICE...]",
		Short: "Run one round of checks here and now, and change nothing",
		Long: `Runs one round of the configured checks in this process and reads the routing table once. It
needs no agent and disturbs none: it touches no state and asks the router for nothing.

With --only it runs no more than the checks that are named, and does not read the router; the
outcome is theirs alone, whatever the service's other checks say. With --verbose it shows below
each check what was sent (>), what came back (<) and what the check made of it (*), with the
time since the check began. Private keys are not shown, nor the values of HTTP headers such as
Authorization and Set-Cookie; all else is: URLs with their queries, bodies, and what tcp and udp
checks send and get. Whoever passes it on should read it first.

The first line is for Nagios and its relatives: status word, what was found, and the time
of each check as performance data. The status word follows the exit status. No other line has
a bar: where there was one stands a slash.`,
		Example: `  vouch check
  vouch check resolver --json
  vouch check --only resolver/dns -v            # why does it fail?
  vouch check -v --only resolver/dns --only resolver/route
  vouch check --config /etc/vouch/new.toml      # before it goes into force`,
		Annotations: statuses("0  OK: healthy; with --only: the checks are ok", "1  WARNING: a service is not healthy, or degraded; with --only: a check failed, or found nothing out",
			"2  CRITICAL: wrong usage, or the configuration is not valid", "3  UNKNOWN: healthy, but the router could not be read, or nothing could be announced by it"),
		ValidArgsFunction: a.configuredServices,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.check(cmd, args, f) },
	}
	cmd.Flags().StringArrayVar(&f.only, "only", nil, "run `SERVICE/CHECK` alone, and do not read the router; may be given several times")
	cmd.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "show what was sent and what came back")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	_ = cmd.RegisterFlagCompletionFunc("only", a.configuredChecks) // the flag is there
	return cmd
}

func (a *app) check(cmd *cobra.Command, names []string, f checkFlags) error {
	w := cmd.OutOrStdout()
	report, err := a.round(cmd, names, f)
	if err != nil {
		return noReport(cmd, err, f.json)
	}
	if f.json {
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

// round runs the checks, and tells on a terminal what it waits for.
func (a *app) round(cmd *cobra.Command, services []string, f checkFlags) (*CheckReport, error) {
	cfg, err := a.load()
	if err != nil {
		return nil, err
	}
	only, err := chosen(cfg, services, f.only)
	if err != nil {
		return nil, &exitError{ExitUsage, err}
	}
	o := CheckOptions{Services: services, Only: only, Trace: f.verbose}
	p := &progress{waiting: awaited(cfg, o)}
	o.Ended = p.ended
	if stderr := cmd.ErrOrStderr(); !f.json && canMove(stderr) {
		defer p.show(stderr)()
	}
	report, err := a.deps.Check(cmd.Context(), cfg, o)
	return report, runError(err)
}

// awaited lists what a round will run.
func awaited(cfg *config.Config, o CheckOptions) []CheckName {
	if len(o.Only) > 0 {
		return slices.Clone(o.Only)
	}
	names := checksOf(cfg, o.Services)
	return append(names, TheRouter)
}
