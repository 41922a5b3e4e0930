package checktest

import (
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// Flat runs f, which must leave no more descriptors and goroutines of this process than there were before;
// those of servers get half a minute to go. Nothing else is to run meanwhile, such as parallel tests. A server
// that copies from one net.Conn to another makes the net package keep a pipe (splice): wrap one of them.
func Flat(tb testing.TB, f func()) {
	tb.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // which closes connections that nobody has closed
	fds, routines := descriptors(tb), runtime.NumGoroutine()
	f()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		nowFDs, nowRoutines := descriptors(tb), runtime.NumGoroutine()
		if nowFDs <= fds && nowRoutines <= routines {
			return
		}
		if time.Now().After(end) {
			stacks := make([]byte, 64<<10)
			tb.Errorf("%d descriptors and %d goroutines have become %d and %d\n%s",
				fds, routines, nowFDs, nowRoutines, stacks[:runtime.Stack(stacks, true)])
			return
		}
	}
}

func descriptors(tb testing.TB) int {
	tb.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Fatal(err)
	}
	return len(all)
}
