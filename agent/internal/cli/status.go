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

WANT is what a prefix ought to be. STAGE is what the table said: absent, configured,
selected or advertised; unknown when it could not be read. Where the two differ the note
begins with DIVERGED and says what is being done.`,
		Example: `  vouch status
  vouch status resolver --watch
  vouch status --json | jq '.services[] | {name, verdict}'`,
		Annotations: statuses("0  all is as it ought to be", "1  something is down, drained, diverged or needs attention",
			"2  wrong usage, or no such service", "3  no agent answers"),
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.services,
		RunE: func(cmd *cobra.Command, args []string) error {
			v := view{client: a.client(), services: args, json: asJSON, out: cmd.OutOrStdout(), screen: screenOf(cmd.OutOrStdout())}
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

// watch shows a snapshot at every event until ctx ends. On a terminal it also survives a restart of
// the agent; otherwise it ends with the agent.
func (v view) watch(ctx context.Context) error {
	events, err := v.client.Events(ctx, 0)
	if err != nil && !v.screen.terminal {
		return err
	}
	following, cancel := context.WithCancel(ctx)
	changed, done := make(chan struct{}, 1), make(chan struct{})
	var ended error
	go func() {
		defer close(done)
		ended = v.follow(following, lastOf(events), changed)
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

// follow puts a token into changed at every event above after. On a terminal it comes back for ever.
func (v view) follow(ctx context.Context, after uint64, changed chan<- struct{}) error {
	for {
		err := v.client.Follow(ctx, after, func(e state.Event) error {
			after = e.Seq
			select {
			case changed <- struct{}{}:
			default: // there is a token already
			}
			return nil
		})
		if !v.screen.terminal || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(redraw):
		}
	}
}

func lastOf(events []state.Event) uint64 {
	if len(events) == 0 {
		return 0
	}
	return events[len(events)-1].Seq
}

// draw shows one snapshot of a watch: a redrawn screen, or one more block, or one more line of JSON.
func (v view) draw(ctx context.Context) error {
	snap, err := v.read(ctx)
	var exit *exitError
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil && (!v.screen.terminal || errors.As(err, &exit)):
		return err
	}
	var b bytes.Buffer
	now := time.Now()
	if v.screen.terminal {
		b.WriteString("\x1b[H\x1b[2J")
	}
	switch {
	case err != nil:
		fmt.Fprintf(&b, "%s  %s\n", now.Format(time.TimeOnly), err)
	case v.json:
		err = json.NewEncoder(&b).Encode(snap)
	default:
		fmt.Fprintf(&b, "%s\n", now.Format(time.DateTime))
		statusText(&b, snap, now, v.screen.colour)
		if !v.screen.terminal {
			b.WriteByte('\n')
		}
	}
	if _, werr := v.out.Write(b.Bytes()); werr != nil {
		return werr
	}
	if v.screen.terminal {
		return nil
	}
	return err
}
