package main

import (
	"slices"
	"syscall"
	"time"
)

// A sample is what repeated measurements of one thing came to, all in one unit.
type sample []float64

// ms adds a time, in milliseconds.
func (s *sample) ms(d time.Duration) { *s = append(*s, float64(d)/float64(time.Millisecond)) }

// median gives the middle value, of an even number the mean of the two; of none it is 0.
func (s sample) median() float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	half := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[half-1] + sorted[half]) / 2
	}
	return sorted[half]
}

// cpu is the processor time of this process, or of its children that have ended, so far.
func cpu(who int) time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(who, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A cost is what a number of runs took: each by the clock, and all together of the processor.
type cost struct {
	Wall sample        `json:"wall"`
	CPU  time.Duration `json:"cpu"`
}

// each gives the processor time of one run, in milliseconds.
func (c cost) each() sample {
	if len(c.Wall) == 0 {
		return nil
	}
	var s sample
	s.ms(c.CPU / time.Duration(len(c.Wall)))
	return s
}

// timed does something a number of times. Its processor time is this process's own, or that of the
// programs that do runs.
func timed(runs, who int, do func() error) (cost, error) {
	var c cost
	before := cpu(who)
	for range runs {
		began := time.Now()
		if err := do(); err != nil {
			return c, err
		}
		c.Wall.ms(time.Since(began))
	}
	c.CPU = cpu(who) - before
	return c, nil
}
