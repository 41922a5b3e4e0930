//go:build hang

package agent

import "os"

// hangFile stops the loop that beats with mayHang for good, as a deadlock would.
const hangFile = "/run/vouch/hang"

// mayHang is for the tests of the watchdog: it gives a beat that never returns once hangFile is there. The
// file is taken away, so that the next start works.
func mayHang(beat func()) func() {
	return func() {
		if os.Remove(hangFile) == nil {
			select {}
		}
		beat()
	}
}
