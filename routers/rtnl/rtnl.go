// Package rtnl reads the kernel's addresses and routes over rtnetlink, changes addresses, and tells
// when something may have changed.
//
// Everything here belongs to the network namespace of the calling thread: a caller in a namespace of its
// own need only lock its thread. All functions may be called concurrently. Those who ask the same at about
// the same time share one reading, which was begun after each had asked; those who watch share one socket.
// Nothing else is remembered between calls.
package rtnl

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errInterrupted says that the tables changed under every attempt to read them, so that what was
// read cannot be trusted (NLM_F_DUMP_INTR, or a route naming an object that is no longer there).
var errInterrupted = errors.New("the kernel's tables changed while they were read")

// readAttempts is how often a read is begun before it is given up as interrupted.
const readAttempts = 4

// defaultTimeout bounds an exchange with the kernel whose context has no deadline.
const defaultTimeout = time.Second

// again calls read until it ends without errInterrupted, at most readAttempts times.
func again(ctx context.Context, read func() error) error {
	var err error
	for range readAttempts {
		err = read()
		if !errors.Is(err, errInterrupted) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("%d attempts: %w", readAttempts, err)
}
