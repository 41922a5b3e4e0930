package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"vouch/agent/internal/control"
	"vouch/agent/internal/state"
)

// The pauses between two tries to reach an agent that went away.
const (
	pauseMin = 200 * time.Millisecond
	pauseMax = 2 * time.Second
)

// A stream follows the agent's events, also over a restart of the agent.
type stream struct {
	client *control.Client
	last   state.Event     // the newest one seen; zero: none
	lost   func(err error) // called when the agent does not answer any more
	found  func()          // called when it does again
}

// follow calls each with the events after the last one seen, until ctx ends, each fails, or the agent
// refuses. It never returns nil.
func (s *stream) follow(ctx context.Context, each func(state.Event) error) error {
	see := func(e state.Event) error {
		s.last = e
		return each(e)
	}
	for {
		err := s.client.Follow(ctx, s.last.Seq, see)
		if ctx.Err() != nil || !away(err) {
			return err
		}
		s.lost(err)
		events, err := s.reconnect(ctx)
		if err != nil {
			return err
		}
		s.found()
		missed := unseen(events, s.last)
		s.last = newest(events) // the numbers may be others now
		for _, e := range missed {
			if err := each(e); err != nil {
				return err
			}
		}
	}
}

// reconnect tries until the agent answers, and gives all its events.
func (s *stream) reconnect(ctx context.Context) ([]state.Event, error) {
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
		if events, err := s.client.Events(ctx, 0); !away(err) {
			return events, err
		}
	}
}

// away says whether err may pass when an agent is started. A socket that was just made is closed to
// everybody but its owner for a moment.
func away(err error) bool {
	return errors.Is(err, control.ErrNotRunning) || errors.Is(err, control.ErrNoAnswer) || errors.Is(err, control.ErrDenied)
}

// unseen gives the events after the last one seen. An agent whose state file was lost numbers its
// events anew; then, and where the last one seen is no longer kept, their times tell.
func unseen(events []state.Event, last state.Event) []state.Event {
	same := slices.ContainsFunc(events, func(e state.Event) bool { return e.Seq == last.Seq && e.Time.Equal(last.Time) })
	var out []state.Event
	for _, e := range events {
		if same && e.Seq > last.Seq || !same && e.Time.After(last.Time) {
			out = append(out, e)
		}
	}
	return out
}

// newest gives the last of the events, or a zero one.
func newest(events []state.Event) state.Event {
	if len(events) == 0 {
		return state.Event{}
	}
	return events[len(events)-1]
}

// telling gives what a stream calls to say on w that the agent went, and that it is back.
func telling(w io.Writer) (lost func(error), found func()) {
	return func(err error) { fmt.Fprintf(w, "vouch: %s; waiting for it until interrupted\n", err) },
		func() { fmt.Fprintln(w, "vouch: the agent answers again") }
}
