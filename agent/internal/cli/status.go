package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vouch/agent/internal/control"
	"vouch/agent/internal/state"
)

// redraw is how often a watched terminal is drawn when nothing happens, so that ages go on.
const redraw = time.Second

func (a *app) statusCmd() *cobra.Command {
	var asJSON, watch bool
	cmd := &cobra.Command{
		Use:   "status [SERVICE]",
		Short: "Show how the services, their prefixes and their checks are",
		Long: `Shows what the running agent knows: each service's verdict, what its prefixes ought to be,
how far they were last read to have come in the routing daemon, and each check.

WANT is what a prefix ought to be: announced, withdrawn, or degraded, which is announced so
that other nodes are preferred. STAGE is what the table said: absent, configured, selected or
advertised, and whether degraded; unknown when it could not be read. Where the two differ the
note begins with DIVERGED and says what is being done. A want of keep is not decided yet: the
prefix stays as it is.

A warning is about the routing daemon: it works now and will hurt some day. See vouch doctor.

With --watch it goes on until interrupted, also over a restart of the agent. On a terminal the
screen is redrawn, and what does not fit is cut.`,
		Example: `  vouch status
  vouch status resolver --watch
  vouch status --json | jq '.services[] | {name, verdict}'`,
		Annotations: statuses("0  all is as it ought to be", "1  something is down, degraded, drained, not decided yet, diverged or needs attention",
			"2  wrong usage, or no such service", "3  no agent answers"),
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.services,
		RunE: func(cmd *cobra.Command, args []string) error {
			v := view{client: a.client(), services: args, json: asJSON, out: cmd.OutOrStdout(), errOut: cmd.ErrOrStderr(), screen: screenOf(cmd.OutOrStdout())}
			if watch {
				return exitOf(v.watch(cmd.Context()))
			}
			return exitOf(v.once(cmd.Context()))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on until interrupted; on a terminal the screen is redrawn")
	return cmd
}

// A view shows snapshots.
type view struct {
	client   *control.Client
	services []string // the only one to show; empty: all
	json     bool
	out      io.Writer
	errOut   io.Writer // told when the agent went away
	screen   screen
}

// once shows the present snapshot; its error carries the exit status.
func (v view) once(ctx context.Context) error {
	snap, err := v.read(ctx)
	if err != nil {
		return err
	}
	if v.json {
		err = printJSON(v.out, snap)
	} else {
		statusText(v.out, snap, time.Now(), v.screen.colour)
	}
	if err == nil && !settled(snap) {
		return &exitError{code: ExitUnhealthy}
	}
	return err
}

// read gives the snapshot, cut down to the service asked for.
func (v view) read(ctx context.Context) (*state.Snapshot, error) {
	snap, err := v.client.Status(ctx)
	if err != nil || len(v.services) == 0 {
		return snap, err
	}
	s, err := pick(snap, v.services[0])
	if err != nil {
		return nil, err
	}
	snap.Services = []state.Service{*s}
	return snap, nil
}

// pick finds a service, or says which there are.
func pick(snap *state.Snapshot, name string) (*state.Service, error) {
	i := slices.IndexFunc(snap.Services, func(s state.Service) bool { return s.Name == name })
	if i >= 0 {
		return &snap.Services[i], nil
	}
	known := make([]string, len(snap.Services))
	for i, s := range snap.Services {
		known[i] = s.Name
	}
	return nil, &exitError{ExitUsage, fmt.Errorf("there is no service %q; there are: %s", name, strings.Join(known, ", "))}
}

// watch shows a snapshot at every event until ctx ends, also over a restart of the agent. Only a
// terminal waits for an agent that was not there to begin with.
func (v view) watch(ctx context.Context) error {
	events, err := v.client.Events(ctx, 0)
	if err != nil && !v.screen.terminal {
		return err
	}
	following, cancel := context.WithCancel(ctx)
	changed, done := make(chan struct{}, 1), make(chan struct{})
	s := v.stream(newest(events), changed)
	var ended error
	go func() {
		defer close(done)
		ended = s.follow(following, func(state.Event) error { put(changed); return nil })
	}()
	defer func() { cancel(); <-done }()
	var tick <-chan time.Time
	if v.screen.terminal {
		t := time.NewTicker(redraw)
		defer t.Stop()
		tick = t.C
	}
	for {
		if err := v.draw(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-done:
			if ctx.Err() != nil {
				return nil
			}
			return ended
		case <-changed:
		case <-tick:
		}
	}
}

// stream gives the stream that puts a token into changed when there is something new to draw. A
// terminal shows in its place that the agent is away.
func (v view) stream(last state.Event, changed chan struct{}) *stream {
	lost, found := telling(v.errOut)
	if v.screen.terminal {
		lost, found = func(error) { put(changed) }, func() {}
	}
	return &stream{client: v.client, last: last, lost: lost, found: func() { found(); put(changed) }}
}

// put leaves a token, unless there is one already.
func put(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

// draw shows one snapshot of a watch: a redrawn screen, or one more block, or one more line of JSON.
// Without a terminal an agent that is away is not drawn: the stream tells.
func (v view) draw(ctx context.Context) error {
	snap, err := v.read(ctx)
	var exit *exitError
	switch {
	case ctx.Err() != nil, away(err) && !v.screen.terminal:
		return nil
	case err != nil && (!v.screen.terminal || errors.As(err, &exit)):
		return err
	}
	text, err := v.frame(snap, err, time.Now())
	if err != nil {
		return err
	}
	_, err = io.WriteString(v.out, text)
	return err
}

// frame gives what draw shows of a snapshot, or of the reason why there is none.
func (v view) frame(snap *state.Snapshot, why error, now time.Time) (string, error) {
	var b bytes.Buffer
	switch {
	case why != nil:
		fmt.Fprintf(&b, "%s  %s\n", now.Format(time.TimeOnly), why)
	case v.json:
		if err := json.NewEncoder(&b).Encode(snap); err != nil || !v.screen.terminal {
			return b.String(), err
		}
		return clearScreen + b.String(), nil
	default:
		fmt.Fprintf(&b, "%s\n", now.Format(time.DateTime))
		statusText(&b, snap, now, v.screen.colour)
	}
	if !v.screen.terminal {
		return b.String() + "\n", nil
	}
	columns, rows := v.screen.size()
	return clearScreen + fit(b.String(), columns, rows), nil
}
