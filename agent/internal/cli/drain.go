package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vouch/agent/internal/control"
	"vouch/agent/internal/health"
	"vouch/agent/internal/state"
	"vouch/routers"
)

const (
	// settlePatience is how long drain and resume wait for the table unless told.
	settlePatience = 30 * time.Second
	// reread is how often the snapshot is read while waiting.
	reread = 20 * time.Millisecond
)

// waiting are the flags of the commands that wait for the table.
type waiting struct {
	noWait  bool
	timeout time.Duration
}

func (v *waiting) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&v.noWait, "no-wait", false, "do not wait for the routing table")
	v.timeout = settlePatience
	lengthVar(cmd, &v.timeout, "timeout", "how long to wait for the routing table")
}

func (a *app) drainCmd() *cobra.Command {
	var v waiting
	var q control.DrainRequest
	var end string
	cmd := &cobra.Command{
		Use:   "drain SERVICE",
		Short: "Withdraw a service's prefixes until a time or a resume",
		Long: `Withdraws a service's prefixes on this node, whatever its checks say, and waits until the
routing table says that they are gone. The drain ends at its time or by "vouch resume", and
survives a restart of the agent. Its checks go on. A second drain replaces the first.

It needs root, or membership in the group that control.admin_group names.`,
		Example: `  vouch drain resolver --for 30m --reason "kernel upgrade"
  vouch drain resolver --until 2026-03-01T06:00:00Z
  vouch drain resolver && systemctl restart unbound && vouch resume resolver`,
		Annotations: statuses("0  withdrawn, as the routing table says (with --no-wait: asked)", "1  not withdrawn in time; the drain stands then",
			"2  wrong usage, or no such service", "3  no agent answers, or it does not allow this"),
		Args: named, ValidArgsFunction: a.services,
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Service = args[0]
			if err := setEnd(&q, end, cmd.Flags().Changed("for"), time.Now()); err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			d := settling{client: a.client(), service: args[0], out: w, waiting: v}
			return exitOf(d.drain(cmd.Context(), q))
		},
	}
	lengthVar(cmd, &q.For, "for", "how `LONG` it lasts, such as 30m, 12h or 1d12h")
	cmd.Flags().StringVar(&end, "until", "", "`WHEN` it ends, as RFC 3339 writes it: 2026-03-01T06:00:00Z")
	cmd.Flags().StringVar(&q.Reason, "reason", "", "why, for whoever looks")
	v.flags(cmd)
	return cmd
}

func (a *app) resumeCmd() *cobra.Command {
	var v waiting
	cmd := &cobra.Command{
		Use:   "resume SERVICE",
		Short: "End a drain",
		Long: `Ends a service's drain, and waits until the routing table says that its prefixes are
announced. When its checks say that it is down it stays withdrawn: then this is told at once,
and the exit status is 1, so that a rolling upgrade does not go on to the next node. So it is
when it comes back degraded. A service that is not drained, because its drain has ended by
itself, is told so and waited for alike.

It needs root, or membership in the group that control.admin_group names.`,
		Example: "  vouch resume resolver",
		Annotations: statuses("0  announced, as the routing table says (with --no-wait: asked)", "1  not up, degraded, or not announced in time",
			"2  wrong usage, or no such service", "3  no agent answers, or it does not allow this"),
		Args: named, ValidArgsFunction: a.services,
		RunE: func(cmd *cobra.Command, args []string) error {
			d := settling{client: a.client(), service: args[0], out: cmd.OutOrStdout(), waiting: v}
			return exitOf(d.resume(cmd.Context()))
		},
	}
	v.flags(cmd)
	return cmd
}

// setEnd checks the drain's end as given on the command line.
func setEnd(q *control.DrainRequest, end string, forGiven bool, now time.Time) error {
	switch {
	case forGiven && end != "":
		return errors.New("--for and --until exclude each other")
	case forGiven && q.For <= 0:
		return fmt.Errorf("--for must be above 0 (got %s)", q.For)
	}
	if end == "" {
		return nil
	}
	t, err := time.Parse(time.RFC3339, end)
	switch {
	case err != nil:
		return fmt.Errorf("--until must be a time such as %s (got %q)", now.Add(time.Hour).Format(time.RFC3339), end)
	case !t.After(now):
		return fmt.Errorf("--until must be in the future (got %s)", end)
	}
	q.Until = t
	return nil
}

// settling is one drain or resume under way.
type settling struct {
	waiting
	client  *control.Client
	service string
	out     io.Writer
}

func (d settling) drain(ctx context.Context, q control.DrainRequest) error {
	start := time.Now()
	if err := d.client.Drain(ctx, q); err != nil {
		return err
	}
	end := `until "vouch resume ` + d.service + `"`
	switch {
	case q.For > 0:
		end = until(start.Add(q.For), start)
	case !q.Until.IsZero():
		end = until(q.Until, start)
	}
	if d.noWait {
		fmt.Fprintf(d.out, "%s is drained %s; the routing table was not waited for\n", d.service, end)
		return d.notes(ctx)
	}
	s, goal, err := d.wait(ctx, func(s *state.Service, _ routers.Stage) bool {
		return s.Drain != nil && all(s, func(p *state.Prefix) bool {
			return p.Want == routers.Withdrawn && p.Stage == routers.Absent && p.Diverged.IsZero()
		})
	})
	if err != nil {
		return d.unsettled(s, err, "withdrawn", "the drain stands and vouch goes on trying")
	}
	fmt.Fprintf(d.out, "%s is drained %s: %s withdrawn after %s, %s\n", d.service, end, prefixNames(s), took(start), whoSays(goal))
	return d.notes(ctx)
}

// notes prints what needs attention besides: a drain that cannot be written to the state file is gone
// after a restart, say.
func (d settling) notes(ctx context.Context) error {
	snap, err := d.client.Status(ctx)
	if err != nil {
		return err
	}
	for _, p := range snap.Problems {
		fmt.Fprintf(d.out, "note: %s\n", p)
	}
	return nil
}

func (d settling) resume(ctx context.Context) error {
	start := time.Now()
	is, err := d.endDrain(ctx)
	if err != nil {
		return err
	}
	if d.noWait {
		fmt.Fprintf(d.out, "%s %s; the routing table was not waited for\n", d.service, is)
		return nil
	}
	s, goal, err := d.wait(ctx, func(s *state.Service, goal routers.Stage) bool {
		return s.Drain == nil && (!isUp(s) || all(s, func(p *state.Prefix) bool { return arrived(p, s.Decision.Want, goal) }))
	})
	if err != nil && s != nil && s.Verdict == health.Degraded {
		return d.unsettled(s, err, "degraded", "it "+is+" and vouch goes on trying")
	}
	if err != nil {
		return d.unsettled(s, err, "announced", "it "+is+" and vouch goes on trying")
	}
	if s.Verdict == health.Degraded {
		return &exitError{ExitUnhealthy, fmt.Errorf("%s %s, but it is degraded: %s are %s in the worse way: %s; see vouch explain %s",
			d.service, is, prefixNames(s), goal, serviceNote(s, time.Now()), d.service)}
	}
	if s.Verdict != health.Up {
		return &exitError{ExitUnhealthy, fmt.Errorf("%s %s, but it is %s and so is not announced: %s; see vouch explain %s",
			d.service, is, s.Verdict, serviceNote(s, time.Now()), d.service)}
	}
	fmt.Fprintf(d.out, "%s %s: %s %s after %s, %s\n", d.service, is, prefixNames(s), goal, took(start), whoSays(goal))
	return nil
}

// arrived says whether p ought to be w, which is announced or degraded, and was read to be so, with nothing
// under way any more.
func arrived(p *state.Prefix, w routers.Want, goal routers.Stage) bool {
	return p.Want == w && w != routers.Keep && p.Diverged.IsZero() && p.Stage != routers.Unknown && p.Stage >= goal && !p.Broken &&
		p.Degraded == (w == routers.Degraded)
}

// whoSays says what a stage was learned from. The one driver whose goal is to be configured reads nothing: it goes
// by what its commands come to.
func whoSays(goal routers.Stage) string {
	if goal == routers.Configured {
		return "as its command says, which nothing reads back (there is no [router] read)"
	}
	return "as the routing table says"
}

// endDrain ends the service's drain, if there is one, and says what became of that.
func (d settling) endDrain(ctx context.Context) (string, error) {
	snap, err := d.client.Status(ctx)
	if err != nil {
		return "", err
	}
	s, err := pick(snap, d.service)
	switch {
	case err != nil:
		return "", err
	case s.Drain == nil:
		return "was not drained, nothing was done", nil
	}
	return "is resumed", d.client.Resume(ctx, d.service)
}

// wait reads the snapshot until ok, and gives the service as last seen with the router's goal. However little time
// there is, it reads it once: what has come to be so in time is not told to be otherwise because of a slow answer.
func (d settling) wait(ctx context.Context, ok func(*state.Service, routers.Stage) bool) (*state.Service, routers.Stage, error) {
	over := time.Now().Add(d.timeout)
	t := time.NewTicker(reread)
	defer t.Stop()
	var s *state.Service
	for {
		snap, err := d.client.Status(ctx)
		if err == nil {
			s, err = pick(snap, d.service)
		}
		switch {
		case err != nil:
			return s, 0, err
		case ok(s, snap.Router.Goal):
			return s, snap.Router.Goal, nil
		case !time.Now().Before(over):
			return s, 0, context.DeadlineExceeded
		}
		select {
		case <-ctx.Done():
			return s, 0, ctx.Err()
		case <-t.C:
		}
	}
}

// unsettled says what the table says instead.
func (d settling) unsettled(s *state.Service, err error, what, stands string) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	var are []string
	now, told := time.Now(), causes{}
	for i := range s.Prefixes {
		p := &s.Prefixes[i]
		text := p.Prefix + " is " + stageText(p)
		note := doing(p, now)
		if why := fold(p.Error); why != "" {
			note = append(note, told.once(p, why))
		}
		if len(note) > 0 {
			text += " (" + state.Clean(strings.Join(note, "; ")) + ")"
		}
		are = append(are, text)
	}
	return &exitError{ExitUnhealthy, fmt.Errorf("%s is not %s after %s: %s; %s, see vouch explain %s",
		d.service, what, d.timeout, strings.Join(are, ", "), stands, d.service)}
}

func all(s *state.Service, ok func(*state.Prefix) bool) bool {
	for i := range s.Prefixes {
		if !ok(&s.Prefixes[i]) {
			return false
		}
	}
	return true
}

func prefixNames(s *state.Service) string {
	names := make([]string, len(s.Prefixes))
	for i, p := range s.Prefixes {
		names[i] = p.Prefix
	}
	return strings.Join(names, ", ")
}

func took(start time.Time) string { return time.Since(start).Round(time.Millisecond).String() }
