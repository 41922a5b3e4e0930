package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vouch/agent/internal/state"
)

func (a *app) eventsCmd() *cobra.Command {
	var asJSON, follow bool
	var back time.Duration
	var last int
	cmd := &cobra.Command{
		Use:   "events",
		Short: "List what changed",
		Long: `Lists the recent changes which the agent keeps in memory: verdicts, stages, drains, the router
going and coming. Each is there once, when it happened; the journal keeps them for longer.
Times are local, with their zone. "journalctl -x -u vouch" explains each kind of change.

The kinds are: ` + kinds() + `.

With --follow it goes on until interrupted. When the agent goes away, as for a restart, that
is said on standard error, and the stream goes on when it is back.`,
		Example: `  vouch events --since 10m
  vouch events --follow
  vouch events --follow -n 0                     # only what is new
  vouch events --json -n 20 | jq -r .text`,
		Annotations: statuses("0  the events were listed, or a stream was interrupted", "1  the output could not be written", "2  wrong usage",
			"3  no agent answers"),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if back < 0 || last < 0 {
				return fmt.Errorf("--since and -n must not be below 0")
			}
			if !cmd.Flags().Changed("last") {
				last = math.MaxInt
			}
			w, client := cmd.OutOrStdout(), a.client()
			events, err := client.Events(cmd.Context(), 0)
			if err != nil {
				return exitOf(err)
			}
			colour := screenOf(w).colour
			show := func(e state.Event) error { return showEvent(w, e, asJSON, colour) }
			for _, e := range recent(events, back, last, time.Now()) {
				if err := show(e); err != nil {
					return exitOf(err)
				}
			}
			if !follow {
				return nil
			}
			s := stream{client: client, last: newest(events)}
			s.lost, s.found = telling(cmd.ErrOrStderr())
			err = s.follow(cmd.Context(), show)
			if cmd.Context().Err() != nil {
				return nil // interrupted, which is how a stream ends
			}
			return exitOf(err)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object on each line")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with new events until interrupted")
	lengthVar(cmd, &back, "since", "only those of the last `TIME`, such as 10m or 1d")
	cmd.Flags().IntVarP(&last, "last", "n", 0, "only the last `N` (with --follow also 0: only what is new)")
	return cmd
}

// kinds names all kinds of events, over several lines.
func kinds() string {
	var names []string
	for i, k := range state.Kinds() {
		name := k.Name
		if i%10 == 9 {
			name = "\n" + name
		}
		names = append(names, name)
	}
	return strings.ReplaceAll(strings.Join(names, ", "), " \n", "\n")
}

// recent gives the events of the time back from now (0: all), and at most the last of them.
func recent(events []state.Event, back time.Duration, last int, now time.Time) []state.Event {
	var out []state.Event
	for _, e := range events {
		if back == 0 || !e.Time.Before(now.Add(-back)) {
			out = append(out, e)
		}
	}
	return out[max(0, len(out)-last):]
}

func showEvent(w io.Writer, e state.Event, asJSON, colour bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(e)
	}
	_, err := fmt.Fprintln(w, eventText(e, time.Local, colour))
	return err
}

// eventText gives one line: time with its zone, level, kind, what it is about, text.
func eventText(e state.Event, zone *time.Location, colour bool) string {
	p := plain
	switch e.Level {
	case "warn":
		p = warned
	case "error":
		p = bad
	}
	var about []string
	for _, s := range []string{e.Service, e.Check, e.Prefix} {
		if s != "" {
			about = append(about, state.Clean(s))
		}
	}
	text := state.Clean(e.Text)
	if len(about) > 0 {
		text = strings.Join(about, " ") + ": " + text
	}
	return fmt.Sprintf("%s  %s  %-8s  %s", faint.on(e.Time.In(zone).Format("2006-01-02 15:04:05.000Z07:00"), colour),
		p.on(fmt.Sprintf("%-5s", state.Clean(e.Level)), colour), state.Clean(e.Kind), text)
}
