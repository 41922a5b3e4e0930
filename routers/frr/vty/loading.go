package vty

import (
	"os"
	"time"

	"vouch/routers"
)

const (
	// loader is the daemon that takes in FRR's configuration at the start (FRR 10).
	loader = "mgmtd"
	// loading is how long that may last. With some hundred lines it is less than a second.
	loading = 15 * time.Second
)

// Loading gives an error of class routers.ErrUnavailable while mgmtd may still be loading FRR's configuration,
// which is told from the age of its socket. Of that configuration it loses lines when a session with it ends
// meanwhile, whatever was said in it (10.3: in 9 of 10 restarts with a session every 10 ms). Of other daemons
// it is nil: their sessions do no such harm.
func Loading(dir, daemon string) error {
	if daemon != loader {
		return nil
	}
	info, err := os.Stat(Path(dir, daemon))
	if err != nil {
		return nil // whoever connects will be told
	}
	age := time.Since(info.ModTime())
	if age < 0 || age >= loading {
		return nil
	}
	return routers.Errorf(routers.ErrUnavailable, "%s: %s has just been started, and may lose what it is loading when it is asked now: it is asked in %s",
		Path(dir, daemon), daemon, (loading - age).Round(time.Second))
}
