// Package program drives whatever the operator's own commands drive: one announces a prefix, one
// withdraws it, and one may read how far it has come.
package program

import "time"

// Options are the commands, each a program and its arguments; no shell is involved. They are run with
// ANYCAST_PREFIX, ANYCAST_ACTION (up, down, degrade, read) and ANYCAST_SERVICE in the environment.
type Options struct {
	Up      []string
	Down    []string
	Degrade []string // none: there is no degraded way
	// Read tells how far the prefix has come: when the first word of its output is a stage (and the second
	// may be "degraded") that is it; without output, exit status 0 is advertised and 1 absent. Every other
	// outcome is unknown. Without Read nothing is ever known to be more than configured.
	Read    []string
	Timeout time.Duration // of one command; default 10s
}
