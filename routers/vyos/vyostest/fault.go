package vyostest

import (
	"slices"
	"time"

	"vouch/routers/vyos/vyostest/store"
)

// The faults. Each happens to the next calls it can happen to. Durations are Go's, such as "2s".
const (
	BootAbsent = "boot-absent" // at once: the boot is not done until that many programs have run; [or how long]. See System.Boot
	BootErrors = "boot-errors" // at once: it is, with errors
	LockHeld   = "lock-held"   // at once, by another process, until that many commits were refused; [or how long]. See System.HoldLock and Operator.Committing

	SetFailed   = "set-failed"   // a bare "Set failed", as without permission or beside a commit; [my_set or my_delete]
	SetRejected = "set-rejected" // a value is refused; [it: any]

	MountMissing   = "mount-missing"   // setupSession answers 0 and has mounted nothing
	FuseDies       = "fuse-dies"       // the mount goes when a verb is done; [verb: my_set]
	SessionStolen  = "session-stolen"  // the session goes when a verb is done; [verb: my_set]
	TeardownFails  = "teardown-fails"  // answers 1, and all is left
	TeardownLeaves = "teardown-leaves" // answers 0, and all is left

	CommitRefused       = "commit-refused"        // by the script; [reason]
	CommitRefusedSilent = "commit-refused-silent" // the reason is lost
	CommitDeleteFailed  = "commit-delete-failed"  // in the part that deletes
	CommitInternal      = "commit-internal"       // when its scripts have run: answers 1, FRR has changed and VyOS has not
	CommitTempLeft      = "commit-temp-left"      // when all is done: answers 1, and both have
	CommitPartialOurs   = "commit-partial-ours"   // answers 1, and protocols static was done
	CommitPartialOther  = "commit-partial-other"  // answers 1, and it was not
	CommitNoFRR         = "commit-no-frr"         // answers 0, and FRR has not changed
	CommitLate          = "commit-late"           // answers 0, and FRR changes later; [when: 1s]
	CommitFRROnly       = "commit-frr-only"       // answers 1, and FRR has changed
	CommitDaemonDown    = "commit-daemon-down"    // staticd does not answer
	CommitHang          = "commit-hang"           // before FRR is touched; [how long: for ever]
	CommitSlow          = "commit-slow"           // the same; [how long: 15s]
	CommitKilled        = "commit-killed"         // its process group, once FRR has changed
	ActiveEmpty         = "active-empty"          // for a moment, while it is written; [how long: 2ms]

	Noisy      = "noisy"       // words on stdout beside success; [verb, or "" for any; sudo, binary, big, failed]
	Slow       = "slow"        // [verb, how long]
	HeldUp     = "held-up"     // when a verb begins, until a file is there; [verb, file]. See System.HoldUp
	KillCaller = "kill-caller" // SIGKILL, when a verb begins; [verb: my_commit]
)

var names = []string{BootAbsent, BootErrors, LockHeld, SetFailed, SetRejected, MountMissing, FuseDies, SessionStolen,
	TeardownFails, TeardownLeaves, CommitRefused, CommitRefusedSilent, CommitDeleteFailed, CommitInternal, CommitTempLeft,
	CommitPartialOurs, CommitPartialOther, CommitNoFRR, CommitLate, CommitFRROnly, CommitDaemonDown, CommitHang, CommitSlow, CommitKilled,
	ActiveEmpty, Noisy, Slow, HeldUp, KillCaller}

// Fault has something go wrong the next times that it can, and negative times for ever; 0 ends it.
func (s *System) Fault(name string, times int, args ...string) {
	s.tb.Helper()
	switch {
	case !slices.Contains(names, name):
		s.tb.Fatalf("vyostest: there is no fault %q", name)
	case name == BootErrors:
		s.Boot("1")
	case len(args) > 0 && name == BootAbsent:
		s.bootsIn(args[0])
	case len(args) > 0 && name == LockHeld:
		s.HoldLock(args...)
	default:
		s.must(s.store.SetFault(store.Fault{Name: name, Left: times, Args: args}))
		s.atOnce(name, times)
	}
}

// atOnce does what is to be seen of a counted fault before any program runs.
func (s *System) atOnce(name string, times int) {
	s.tb.Helper()
	switch {
	case name == BootAbsent && times == 0:
		s.boot("0")
	case name == BootAbsent:
		s.boot("")
	case name == LockHeld && times != 0:
		s.HoldLock("refusals")
	}
}

// bootsIn has the boot be done after a time.
func (s *System) bootsIn(after string) {
	s.tb.Helper()
	d, err := time.ParseDuration(after)
	s.must(err)
	s.Boot("")
	done := make(chan struct{})
	timer := time.AfterFunc(d, func() {
		defer close(done)
		_ = s.store.Write(store.Boot, "0", 0o644)
	})
	s.tb.Cleanup(func() {
		if !timer.Stop() {
			<-done
		}
	})
}
