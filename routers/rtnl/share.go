package rtnl

import (
	"context"
	"net/netip"
	"sync"

	"vouch/routers/rtnl/hub"
)

// A question is what a reading answers. Only the same question in the same network namespace can have
// the same reading for its answer.
type question struct {
	here   hub.Namespace
	family Family
	table  uint32
	to     netip.Prefix
	lookup Lookup
}

// readings lets all who ask the same at about the same time share one reading: a thousand checks that one
// hint wakes need not have a thousand dumps of one table. Nobody gets a reading that was begun before it
// asked, so that a hint is never answered from before it.
type readings[T any] struct {
	mu    sync.Mutex
	lines map[question]*line[T]
}

// A line is the reading under way, and the one that begins behind it, for those who came too late.
type line[T any] struct{ running, next *reading[T] }

type reading[T any] struct {
	done  chan struct{}
	value T
	err   error
	cut   bool // it ended with the context of the one who read
}

// ask reads, or waits for another who does. What it gives is shared, and must not be changed.
func (rs *readings[T]) ask(ctx context.Context, q question, read func(context.Context) (T, error)) (T, error) {
	for {
		r, before, mine := rs.enter(q)
		if mine {
			return rs.lead(ctx, q, r, before, read)
		}
		select {
		case <-r.done:
			if !r.cut {
				return r.value, r.err
			}
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		}
	}
}

// enter gives a reading that has not begun. Whose it is begins it when before is closed; nil: at once.
func (rs *readings[T]) enter(q question) (r *reading[T], before <-chan struct{}, mine bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	l := rs.lines[q]
	switch {
	case l == nil:
		if rs.lines == nil {
			rs.lines = map[question]*line[T]{}
		}
		r = &reading[T]{done: make(chan struct{})}
		rs.lines[q] = &line[T]{running: r}
		return r, nil, true
	case l.next != nil:
		return l.next, nil, false
	}
	l.next = &reading[T]{done: make(chan struct{})}
	return l.next, l.running.done, true
}

// lead reads for all who wait for r.
func (rs *readings[T]) lead(ctx context.Context, q question, r *reading[T], before <-chan struct{}, read func(context.Context) (T, error)) (T, error) {
	r.cut = true // unless it comes to its end, also when read panics
	defer close(r.done)
	defer rs.end(q, r)
	if before != nil {
		select {
		case <-before:
		case <-ctx.Done():
			r.err = ctx.Err()
			return r.value, r.err
		}
	}
	r.value, r.err = read(ctx)
	r.cut = ctx.Err() != nil
	return r.value, r.err
}

// end takes a reading out of the line. The next becomes the one under way when the one before has ended:
// its reader sees that a moment later, so that those who come in between wait for the one behind it.
func (rs *readings[T]) end(q question, r *reading[T]) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	l := rs.lines[q]
	switch {
	case l.next == r: // broken off before it began
		l.next = nil
	case l.next != nil:
		l.running, l.next = l.next, nil
	default:
		delete(rs.lines, q)
	}
}
