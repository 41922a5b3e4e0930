package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vouch/agent/internal/control"
	"vouch/agent/internal/state"
	"vouch/routers"
)

// A WithdrawReport says what came of withdrawing all prefixes without an agent.
type WithdrawReport struct {
	Time     time.Time          `json:"time"`
	File     string             `json:"file"`
	Took     time.Duration      `json:"took_ns"`
	Router   state.Router       `json:"router"`   // at the last reading
	Services []WithdrawnService `json:"services"` // by name
}

// A WithdrawnService is one service's prefixes, as last read.
type WithdrawnService struct {
	Name     string         `json:"name"`
	Prefixes []state.Prefix `json:"prefixes"`
}

// left gives the prefixes that were not read to be absent, and to stay so.
func (r *WithdrawReport) left() []state.Prefix {
	var left []state.Prefix
	for _, s := range r.Services {
		for _, p := range s.Prefixes {
			if p.Stage != routers.Absent || !p.Diverged.IsZero() {
				left = append(left, p)
			}
		}
	}
	return left
}

// ExitCode is 0 when all is read to be withdrawn, else 3 when the router could not be read, else 1.
func (r *WithdrawReport) ExitCode() int {
	switch {
	case len(r.left()) == 0:
		return ExitOK
	case !r.Router.OK:
		return ExitNoAgent
	}
	return ExitUnhealthy
}

func (a *app) withdrawCmd() *cobra.Command {
	var owned, asJSON bool
	var patience time.Duration
	cmd := &cobra.Command{
		Use:   "withdraw --owned",
		Short: "Withdraw everything that the configuration manages, without an agent",
		Long: `Withdraws all prefixes of the configuration from the routing daemon, whatever their checks
say, and reads the routing table until it says that they are gone. Nothing keeps them away:
the next agent announces them again once their services have passed their checks.

It is for a node whose agent does not run, such as in ExecStopPost= of its unit after a crash,
or before vouch is removed for good. While an agent runs it changes nothing: drain the services
then. It needs the rights that the agent has.`,
		Example: `  systemctl stop vouch && vouch withdraw --owned
  vouch withdraw --owned --timeout 30s --json`,
		Annotations: statuses("0  withdrawn, as the routing table says", "1  not withdrawn in time; or an agent runs, and nothing was changed",
			"2  wrong usage, or the configuration is not valid", "3  the router could not be read"),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case !owned:
				return errors.New("withdraw needs --owned, which means all prefixes of the configuration; for one service, and with an agent: vouch drain SERVICE")
			case cmd.Flags().Changed("timeout") && patience <= 0:
				return fmt.Errorf("--timeout must be above 0 (got %s)", patience)
			}
			return a.withdraw(cmd, patience, asJSON)
		},
	}
	cmd.Flags().BoolVar(&owned, "owned", false, "all prefixes of the configuration")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	lengthVar(cmd, &patience, "timeout", "how long to try, and to wait for the routing table (default 10s, or deadline of [router] where that is longer)")
	return cmd
}

func (a *app) withdraw(cmd *cobra.Command, patience time.Duration, asJSON bool) error {
	w := cmd.OutOrStdout()
	report, err := a.withdrawal(cmd.Context(), patience)
	if err != nil {
		return notDone(w, err, asJSON)
	}
	if asJSON {
		if err := printJSON(w, report); err != nil {
			return exitOf(err)
		}
		return silent(report.ExitCode())
	}
	if code := report.ExitCode(); code != ExitOK {
		return &exitError{code, errors.New(leftText(report))}
	}
	_, err = fmt.Fprintf(w, "withdrawn after %s, %s: %s\n", report.Took.Round(time.Millisecond), whoSays(report.Router.Goal), report.names())
	return exitOf(err)
}

// withdrawal tries for so long, or by default as long as the router may take.
func (a *app) withdrawal(ctx context.Context, patience time.Duration) (*WithdrawReport, error) {
	cfg, err := a.load()
	if err != nil {
		return nil, err
	}
	if patience == 0 {
		patience = max(10*time.Second, cfg.Router.Deadline)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	report, err := a.deps.Withdraw(ctx, cfg)
	if errors.Is(err, control.ErrRunning) {
		return nil, &exitError{ExitUnhealthy, fmt.Errorf("%w; or withdraw while it runs: vouch drain SERVICE", err)}
	}
	return report, runError(err)
}

// notDone is for an error before anything was changed.
func notDone(w io.Writer, err error, asJSON bool) error {
	if !asJSON {
		return err
	}
	exit := &exitError{code: ExitUnhealthy}
	_ = errors.As(err, &exit)
	problems := strings.Split(err.Error(), "\n")
	if err := printJSON(w, CheckFailure{problems[0], problems}); err != nil {
		return exitOf(err)
	}
	return &exitError{code: exit.code}
}

// silent exits with a status, and prints nothing.
func silent(code int) error {
	if code == ExitOK {
		return nil
	}
	return &exitError{code: code}
}

// leftText says what the table says instead.
func leftText(r *WithdrawReport) string {
	var are []string
	for _, p := range r.left() {
		text := p.Prefix + " is " + stageText(&p)
		if why := fold(p.Error, p.Detail); why != "" {
			text += " (" + why + ")"
		}
		are = append(are, text)
	}
	text := fmt.Sprintf("not withdrawn after %s: %s", r.Took.Round(time.Millisecond), strings.Join(are, ", "))
	if !r.Router.OK {
		text += "; the router could not be read: " + cmp.Or(r.Router.Error, "no answer in time")
	}
	return state.Clean(text) + "; vouch doctor looks at the routing daemon"
}

func (r *WithdrawReport) names() string {
	var names []string
	for _, s := range r.Services {
		for _, p := range s.Prefixes {
			names = append(names, p.Prefix)
		}
	}
	return strings.Join(names, ", ")
}
