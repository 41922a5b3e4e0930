package checks

import (
	"context"
	"fmt"
)

// A Direction says which way a line of a trace went.
type Direction byte

// The directions, by the sign that they are shown with.
const (
	Sent Direction = '>'
	Got  Direction = '<'
	Note Direction = '*' // what the check did, or how it judged
)

type traceKey struct{}

// WithTrace gives a context whose checks tell hear what they send and what comes back, for a person
// who looks on. A text may have several lines, and may hold anything that the target sent; whoever
// prints it escapes it. Hear may be called concurrently.
func WithTrace(ctx context.Context, hear func(d Direction, text string)) context.Context {
	return context.WithValue(ctx, traceKey{}, hear)
}

// Traced says whether anybody looks on, where a text would be costly to make.
func Traced(ctx context.Context) bool { return ctx.Value(traceKey{}) != nil }

// Tracef tells whoever looks on; mostly nobody does. Arguments that are costly to make are better kept
// behind Traced.
func Tracef(ctx context.Context, d Direction, format string, args ...any) {
	if hear, ok := ctx.Value(traceKey{}).(func(Direction, string)); ok {
		hear(d, fmt.Sprintf(format, args...))
	}
}
