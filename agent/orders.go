package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"vouch/agent/internal/decide"
	"vouch/agent/internal/state"
)

// An UnknownServiceError is an order for a service that is not configured.
type UnknownServiceError struct {
	Service string
	Known   []string
}

// Error names the services there are.
func (e *UnknownServiceError) Error() string {
	return fmt.Sprintf("there is no service %q; there are: %s", e.Service, strings.Join(e.Known, ", "))
}

// Unknown tells the control server that the service asked for is not there.
func (e *UnknownServiceError) Unknown() bool { return true }

// orders is what the control socket may ask of the core.
type orders struct{ *core }

// Events gives the recent events numbered above after.
func (o orders) Events(after uint64) []state.Event { return o.store.Events(after) }

// Changed gives a channel that is closed at the next change.
func (o orders) Changed() <-chan struct{} { return o.store.Changed() }

// Drain withdraws a service until the drain's end, or until it is resumed. A second drain replaces
// the first.
func (o orders) Drain(_ context.Context, name string, d decide.Drain) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	s, err := o.find(name)
	if err != nil {
		return err
	}
	now := time.Now()
	d.Since = now
	if !d.Until.IsZero() && !d.Until.After(now) {
		return fmt.Errorf("the drain would end at %s, which is past", d.Until.Format(time.RFC3339))
	}
	if !d.Until.IsZero() {
		d.Until = now.Add(d.Until.Sub(now)) // counts on the monotonic clock from here
	}
	s.drain = &d
	o.event(state.Event{Level: "warn", Kind: state.KindDrain, Service: name, Reason: "drain", Text: drainText(d)})
	o.settle(now)
	return nil
}

// Resume ends a service's drain; it is announced again after rise good rounds from now. Without a
// drain it does nothing.
func (o orders) Resume(_ context.Context, name, by string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	s, err := o.find(name)
	if err != nil {
		return err
	}
	if s.drain == nil {
		return nil
	}
	s.drain = nil
	s.doubt()
	o.event(state.Event{Level: "info", Kind: state.KindDrain, Service: name, Reason: "resume", Text: "resumed by " + by})
	o.settle(time.Now())
	return nil
}

func (o orders) find(name string) (*service, error) {
	if s := o.services[name]; s != nil && !s.removed {
		return s, nil
	}
	known := slices.DeleteFunc(slices.Sorted(maps.Keys(o.services)), func(n string) bool { return o.services[n].removed })
	return nil, &UnknownServiceError{Service: name, Known: known}
}

func drainText(d decide.Drain) string {
	s := "drained by " + d.By
	if d.Until.IsZero() {
		s += " until it is resumed"
	} else {
		s += " until " + d.Until.Local().Format(time.RFC3339)
	}
	if d.Reason != "" {
		s += ": " + state.Clean(d.Reason)
	}
	return s
}
