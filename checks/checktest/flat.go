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
	if !Becomes(30*time.Second, func() bool { return descriptors(tb) <= fds && runtime.NumGoroutine() <= routines }) {
		stacks := make([]byte, 64<<10)
		tb.Errorf("%d descriptors and %d goroutines have become %d and %d\n%s",
			fds, routines, descriptors(tb), runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
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
