package vyostest

import (
	"slices"

	"vouch/routers/vyos/vyostest/store"
)

// The faults. Each happens to the next calls it can happen to. Durations are Go's, such as "2s".
const (
	BootAbsent = "boot-absent" // at once: the boot is not done. See System.Boot
	BootErrors = "boot-errors" // at once: it is, with errors
	LockHeld   = "lock-held"   // at once, by another process; [how long]. See System.HoldLock

	SetFailed   = "set-failed"   // a bare "Set failed", as without permission or beside a commit; [my_set or my_delete]
	SetRejected = "set-rejected" // the value is refused; [value]

	MountMissing   = "mount-missing"   // setupSession answers 0 and has mounted nothing
	FuseDies       = "fuse-dies"       // the mount goes when a verb is done; [verb: my_set]
	SessionStolen  = "session-stolen"  // the session goes when a verb is done; [verb: my_set]
	TeardownFails  = "teardown-fails"  // answers 1, and all is left
	TeardownLeaves = "teardown-leaves" // answers 0, and all is left

	CommitRefused       = "commit-refused"        // by the script; [reason]
	CommitRefusedSilent = "commit-refused-silent" // the reason is lost
	CommitDeleteFailed  = "commit-delete-failed"  // in the part that deletes
	CommitInternal      = "commit-internal"       // before anything is done
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
	KillCaller = "kill-caller" // SIGKILL, when a verb begins; [verb: my_commit]
)

var names = []string{BootAbsent, BootErrors, LockHeld, SetFailed, SetRejected, MountMissing, FuseDies, SessionStolen,
	TeardownFails, TeardownLeaves, CommitRefused, CommitRefusedSilent, CommitDeleteFailed, CommitInternal, CommitPartialOurs,
	CommitPartialOther, CommitNoFRR, CommitLate, CommitFRROnly, CommitDaemonDown, CommitHang, CommitSlow, CommitKilled,
	ActiveEmpty, Noisy, Slow, KillCaller}

// Fault has something go wrong the next times that it can, and negative times for ever; 0 ends it.
func (s *System) Fault(name string, times int, args ...string) {
	s.tb.Helper()
	switch {
	case !slices.Contains(names, name):
		s.tb.Fatalf("vyostest: there is no fault %q", name)
	case name == BootAbsent:
		s.Boot("")
	case name == BootErrors:
		s.Boot("1")
	case name == LockHeld:
		s.HoldLock(args...)
	default:
		s.must(s.store.SetFault(store.Fault{Name: name, Left: times, Args: args}))
	}
}
