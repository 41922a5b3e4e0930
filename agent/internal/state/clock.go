package state

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A Clock is one moment on the two clocks that matter: the wall clock, which may be set, and the
// time since boot, which may not.
type Clock struct {
	Now    time.Time     // with a monotonic reading
	Boot   time.Duration // CLOCK_BOOTTIME
	BootID string        // of this boot; empty when it cannot be read
}

// ReadClock reads both clocks and the kernel's boot id.
func ReadClock() (Clock, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return Clock{}, fmt.Errorf("read the time since boot: %w", err)
	}
	c := Clock{Now: time.Now(), Boot: time.Duration(ts.Nano())}
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return c, fmt.Errorf("read the boot id: %w", err)
	}
	c.BootID = strings.TrimSpace(string(id))
	return c, nil
}

// A stamp is a time as the state file holds it: since boot, which counts within the same boot
// whatever happened to the wall clock, and by the wall clock for people and for another boot.
type stamp struct {
	Boot time.Duration `json:"boot_ns"`
	Wall time.Time     `json:"wall"`
}

func (c Clock) stamp(t time.Time) *stamp {
	if t.IsZero() {
		return nil
	}
	return &stamp{Boot: c.Boot + t.Sub(c.Now), Wall: t}
}

// time gives the moment back with a monotonic reading, or by the wall clock after another boot.
func (c Clock) time(s *stamp, sameBoot bool) time.Time {
	switch {
	case s == nil:
		return time.Time{}
	case sameBoot:
		return c.Now.Add(s.Boot - c.Boot)
	}
	return s.Wall
}
