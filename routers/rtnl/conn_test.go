package rtnl

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// TestReceiveEnds waits for an answer to a question that was not asked.
func TestReceiveEnds(t *testing.T) {
	for want, end := range map[error]func(context.Context) (context.Context, context.CancelFunc){
		context.DeadlineExceeded: func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 10*time.Millisecond)
		},
		context.Canceled: func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(10*time.Millisecond, cancel)
			return ctx, cancel
		},
	} {
		c, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		defer c.close()
		ctx, cancel := end(t.Context())
		defer cancel()
		release, err := c.bind(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		_, err = c.receive()
		if err = timely(ctx, err); !errors.Is(err, want) {
			t.Errorf("receive: %v, want %v", err, want)
		}
	}
}

func TestExchangeHasDefaultTimeout(t *testing.T) {
	c, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	release, err := c.bind(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	start := time.Now()
	_, err = c.receive()
	if err = timely(t.Context(), err); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) < defaultTimeout/2 {
		t.Errorf("receive: %v after %s", err, time.Since(start))
	}
}

// TestDumpInterrupted has the kernel itself say so: addresses change in the middle of a dump.
func TestDumpInterrupted(t *testing.T) {
	twoPairs(t)
	lines := make([]string, 2000)
	for i := range lines {
		lines[i] = fmt.Sprintf("addr add 10.54.%d.%d/32 dev lo", i>>8, i&255)
	}
	ip(t, lines...)
	c, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	req := nl.NewNetlinkRequest(unix.RTM_GETADDR, 0)
	req.AddData(nl.NewIfAddrmsg(unix.AF_INET))
	seen := 0
	err = c.dump(unhurried(t), req, func([]byte) bool {
		if seen++; seen == 10 {
			ip(t, "addr add 10.53.53.53/32 dev lo")
		}
		return true
	})
	if !errors.Is(err, errInterrupted) {
		t.Errorf("dump: %v, want it interrupted", err)
	}
	if got := len(addresses(t)); got < len(lines)+1 {
		t.Errorf("then %d addresses, want at least %d", got, len(lines)+1)
	}
}

// TestRoutesThatNameWhatIsGone stands for objects and links removed between two readings.
func TestRoutesThatNameWhatIsGone(t *testing.T) {
	twoPairs(t)
	for _, r := range []route{by(4242), unicast(0, over(4242))} {
		if d, err := complete(unhurried(t), []route{r}); !errors.Is(err, errInterrupted) {
			t.Errorf("%+v: %+v, %v, want it interrupted", r, d, err)
		}
	}
}
