package cli

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A tape keeps what is written to it.
type tape struct {
	mu sync.Mutex
	b  strings.Builder
}

func (t *tape) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(b)
}

func (t *tape) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := []CheckName{{"resolver", "dns"}, {"resolver", "tcp"}, TheRouter}
		var quick tape
		stop := (&progress{waiting: names}).show(&quick)
		time.Sleep(progressAfter - time.Millisecond)
		stop()
		if got := quick.String(); got != "" {
			t.Errorf("a quick round told %q", got)
		}
		var slow tape
		p := &progress{waiting: names}
		stop = p.show(&slow)
		time.Sleep(progressAfter)
		synctest.Wait()
		p.ended(CheckName{"resolver", "tcp"})
		p.ended(CheckName{"resolver", "tcp"}) // of which there is no second one
		time.Sleep(progressEvery)
		synctest.Wait()
		stop()
		want := clearLine + "0 of 3 done, waiting for resolver/dns, resolver/tcp, the router" +
			clearLine + "1 of 3 done, waiting for resolver/dns, the router" + clearLine
		if got := slow.String(); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}

func TestProgressText(t *testing.T) {
	var names []CheckName
	for i := range 7 {
		names = append(names, CheckName{"web", fmt.Sprintf("c%d", i)})
	}
	for _, c := range []struct {
		n    int
		want string
	}{
		{0, "3 of 3 done"}, {1, "3 of 4 done, waiting for web/c0"}, {5, "3 of 8 done, waiting for web/c0, web/c1, web/c2, web/c3, web/c4"},
		{7, "3 of 10 done, waiting for web/c0, web/c1, web/c2, web/c3, web/c4, 2 more"},
	} {
		p := &progress{waiting: names[:c.n], done: 3}
		if got := p.text(); got != c.want {
			t.Errorf("%d are left: %q, want %q", c.n, got, c.want)
		}
	}
}
