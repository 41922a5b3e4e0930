package routertest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"vouch/routers"
	"vouch/routers/lab"
)

// late is how long after its context's end a call may come back on a busy machine.
const late = 2 * time.Second

// A contract is a router whose every call, made inside the node, is held against what package routers
// promises of it. A broken promise is a fault, which fault gives; a panic is one too, and not passed on.
type contract struct {
	router routers.Router
	node   *lab.Node
	fault  error // the first
}

func (c *contract) observe(ctx context.Context, ps []netip.Prefix) (os []routers.Observation, err error) {
	c.call(ctx, "Observe", func() error {
		os, err = c.router.Observe(ctx, ps)
		return err
	})
	if len(os) != len(ps) {
		c.broken("Observe gave %d observations for %d prefixes", len(os), len(ps))
		return unknowns(ps), err
	}
	for i, o := range os {
		switch {
		case o.Prefix != ps[i]:
			c.broken("Observe gave %s where %s was asked for", o.Prefix, ps[i])
		case o.Stage == routers.Unknown && o.Detail == "":
			c.broken("Observe says of %s that it is unknown, and not why", o.Prefix)
		case o.Stage > c.router.Goal():
			c.broken("Observe says that %s is %s, beyond the goal %s", o.Prefix, o.Stage, c.router.Goal())
		}
	}
	return os, err
}

func (c *contract) apply(ctx context.Context, cs []routers.Change) (err error) {
	c.call(ctx, "Apply", func() error {
		err = c.router.Apply(ctx, cs)
		return err
	})
	return err
}

// call makes one call and looks at its error and its time.
func (c *contract) call(ctx context.Context, name string, do func() error) {
	err := c.node.Do(func() (err error) {
		defer func() {
			if r := recover(); r != nil {
				c.broken("%s panics: %v", name, r)
			}
		}()
		return do()
	})
	if end, ok := ctx.Deadline(); ok && time.Since(end) > late {
		c.broken("%s came back %s after the end of its time", name, time.Since(end))
	}
	if err == nil {
		return
	}
	if classOf(err) == nil {
		c.broken("%s gave an error of no class: %w", name, err)
	}
	if strings.Contains(err.Error(), "\n") {
		c.broken("%s gave an error of several lines: %w", name, err)
	}
}

// classOf gives the class of an error, nil where it has none. What was refused and unavailable at the
// same time counts as unavailable.
func classOf(err error) error {
	for _, class := range []error{routers.ErrUnavailable, routers.ErrBusy, routers.ErrRefused} {
		if errors.Is(err, class) {
			return class
		}
	}
	return nil
}

func (c *contract) broken(format string, args ...any) {
	if c.fault == nil {
		c.fault = fmt.Errorf(format, args...)
	}
}

func unknowns(ps []netip.Prefix) []routers.Observation {
	os := make([]routers.Observation, len(ps))
	for i, p := range ps {
		os[i] = routers.Observation{Prefix: p, Detail: "nothing was read"}
	}
	return os
}
