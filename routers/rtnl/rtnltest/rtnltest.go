// Package rtnltest gives a test a network namespace of its own, for as long as the test's thread
// lives. It needs no cleaning up: the kernel frees the namespace with the last thread in it.
package rtnltest

import (
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A Namespace is a network namespace that holds the calling test's thread.
type Namespace struct {
	tb      testing.TB
	handle  *os.File
	running sync.WaitGroup
}

// New moves the calling test or benchmark into a new network namespace, where there is only a
// loopback interface, and that is down. The test's goroutine is locked to its thread from then on.
// Without root the test is skipped, and fails where CI=true.
func New(tb testing.TB) *Namespace {
	tb.Helper()
	if os.Geteuid() != 0 {
		refuse(tb, "network namespaces need root; run the tests as root")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the test, and its namespace with it
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		refuse(tb, "no new network namespace: "+err.Error())
	}
	handle, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		tb.Fatal(err)
	}
	ns := &Namespace{tb: tb, handle: handle}
	tb.Cleanup(func() {
		ns.running.Wait()
		handle.Close()
	})
	return ns
}

func refuse(tb testing.TB, why string) {
	tb.Helper()
	if os.Getenv("CI") == "true" {
		tb.Fatal(why)
	}
	tb.Skip("SKIPPED: " + why)
}

// Go runs fn in a goroutine of its own inside the namespace. The test does not end before fn does.
func (ns *Namespace) Go(fn func()) {
	ns.running.Go(func() {
		runtime.LockOSThread()
		if err := unix.Setns(int(ns.handle.Fd()), unix.CLONE_NEWNET); err != nil {
			ns.tb.Errorf("enter the network namespace: %v", err)
			return
		}
		fn()
	})
}

// Wait returns when ok does, asking every millisecond; the test fails when that takes longer than
// a minute.
func (ns *Namespace) Wait(what string, ok func() bool) {
	ns.tb.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			ns.tb.Fatalf("waited a minute in vain until %s", what)
		}
	}
}
