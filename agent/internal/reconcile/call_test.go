package reconcile

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"vouch/routers"
)

// TestWhatIsNotDone: a call that does not end in time is told by its bound, but for one that tells itself what it
// waits for.
func TestWhatIsNotDone(t *testing.T) {
	for told, class := range map[string]error{
		"fake: changing is not done after 4s: locked": routers.ErrUnavailable,
		"locked": routers.ErrBusy,
	} {
		synctest.Test(t, func(t *testing.T) {
			l := New(&fake{}, Options{}, nil)
			_, err := l.call(t.Context(), job{what: "changing", bound: 4 * time.Second, do: func(ctx context.Context) error {
				<-ctx.Done()
				return routers.Errorf(errors.Join(class, ctx.Err()), "locked")
			}})
			if text, _, _ := strings.Cut(err.Error(), "\n"); text != told || !errors.Is(err, class) {
				t.Errorf("%v, want %q", err, told)
			}
		})
	}
}
