package config

import (
	"fmt"
	"time"

	"vouch/checks"
)

// A looker asks checks what of them does not fit this machine, several side by side. None of them can be broken off,
// and a file system that hangs must hold neither start nor reload: those that do not come back are left behind.
type looker struct {
	slots    chan struct{} // taken by each that is under way; those left behind keep theirs
	patience time.Duration // without any that comes back
}

// here is of the whole process, so that those left behind are never many: each has a thread of its own.
var here = looker{slots: make(chan struct{}, 16), patience: 2 * time.Second}

// ask gives what each of them finds.
func (l *looker) ask(all []func() []checks.Problem) [][]checks.Problem {
	type answer struct {
		i  int
		ps []checks.Problem
	}
	answers := make(chan answer, len(all)) // so that none waits who comes back late
	found := make([][]checks.Problem, len(all))
	for i := range found {
		found[i] = l.hangs()
	}
	timer := time.NewTimer(l.patience)
	defer timer.Stop()
	for begun, done := 0, 0; done < len(all); {
		var slots chan<- struct{}
		if begun < len(all) {
			slots = l.slots
		}
		select {
		case slots <- struct{}{}:
			i := begun
			begun++
			go func() {
				defer func() { <-l.slots }()
				answers <- answer{i, all[i]()}
			}()
		case a := <-answers:
			found[a.i] = a.ps
			done++
			timer.Reset(l.patience)
		case <-timer.C:
			return found
		}
	}
	return found
}

// hangs is the problem of a check of which nothing was found out.
func (l *looker) hangs() []checks.Problem {
	return []checks.Problem{{What: fmt.Sprintf("whether it fits this machine was not found out within %s", l.patience),
		WayOut: "see whether the file system of its files hangs, or that of another check"}}
}
