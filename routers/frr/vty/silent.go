package vty

import (
	"context"
	"errors"
	"time"

	"vouch/routers"
)

// leastWait is the shortest wait that makes a daemon look hung.
const leastWait = 10 * time.Millisecond

// Silent is the error of having waited so long for somebody, "ospfd", when ctx ended: of class
// routers.ErrUnavailable and of that of ctx.
func Silent(ctx context.Context, who string, waited time.Duration) error {
	cause := context.Cause(ctx)
	class := errors.Join(routers.ErrUnavailable, cause)
	switch {
	case !errors.Is(cause, context.DeadlineExceeded):
		return routers.Errorf(class, "%s had not answered yet: %w", who, cause)
	case waited < leastWait:
		return routers.Errorf(class, "%s was not asked: there was no time left", who)
	}
	return routers.Errorf(class, "%s does not answer within %s (hung?)", who, waited.Round(leastWait))
}
