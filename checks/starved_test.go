package checks

import (
	"context"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
)

// A host that has run out of descriptors has found out nothing about the service.
func TestStarvedIsUnknown(t *testing.T) {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.EAGAIN} {
		err := &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", e)}
		if f := NetFailure(t.Context(), "late", err); f.Reason != ReasonUnknown {
			t.Errorf("%v: %s, want unknown", e, f.Reason)
		}
		if !Starved(fmt.Errorf("start: %w", e)) {
			t.Errorf("%v is not starved", e)
		}
	}
	for _, e := range []error{syscall.ECONNREFUSED, syscall.EPERM, context.DeadlineExceeded, os.ErrDeadlineExceeded} {
		if Starved(e) {
			t.Errorf("%v is starved", e)
		}
	}
}
