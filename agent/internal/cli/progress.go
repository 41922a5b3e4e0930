package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// progressAfter is how long a command may take without a word.
	progressAfter = time.Second
	// progressEvery is how often the word is renewed.
	progressEvery = 200 * time.Millisecond
	// clearLine moves to the beginning of the line and erases it (ECMA-48 EL).
	clearLine = "\r\x1b[2K"
)

// A progress tells on a terminal what a round of checks still waits for.
type progress struct {
	mu      sync.Mutex
	waiting []CheckName
	done    int
}

// ended takes note of what is over. It may be called concurrently.
func (p *progress) ended(n CheckName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.waiting, n); i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
		p.done++
	}
}

// text is such as "3 of 5 done, waiting for resolver/dns, the router".
func (p *progress) text() string {
	const most = 5
	p.mu.Lock()
	defer p.mu.Unlock()
	names := textsOf(p.waiting)
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("%d more", more))
	}
	text := fmt.Sprintf("%d of %d done", p.done, p.done+len(p.waiting))
	if len(names) > 0 {
		text += ", waiting for " + strings.Join(names, ", ")
	}
	return text
}

// show tells on w when it takes longer, until stop, which leaves the line as it was.
func (p *progress) show(w io.Writer) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		after := time.NewTimer(progressAfter)
		defer after.Stop()
		for shown := false; ; shown = true {
			select {
			case <-quit:
				if shown {
					fmt.Fprint(w, clearLine)
				}
				return
			case <-after.C:
			}
			columns, _ := screenOf(w).size()
			fmt.Fprint(w, clearLine+strings.TrimSuffix(fit(p.text(), max(columns-1, 0), 0), "\n"))
			after.Reset(progressEvery)
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// canMove says whether w is a terminal on which a line can be written anew.
func canMove(w io.Writer) bool { return screenOf(w).terminal && os.Getenv("TERM") != "dumb" }
