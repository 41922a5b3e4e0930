package bird

import (
	"context"
	"slices"
	"time"

	"vouch/routers"
)

const (
	// heedPatience is how long a protocol may take to go down once its switch is off: BIRD takes its routes away
	// step by step.
	heedPatience = 500 * time.Millisecond
	heedEvery    = 20 * time.Millisecond
)

// heeded has the withdraws made at run time that a switch, which is in force, does not make: what gives the prefix
// to a peer is not disabled by it.
func (b byInclude) heeded(ctx context.Context, part part, withdraws []routers.Change) error {
	if b.options.Style != StyleSwitch {
		return nil
	}
	deadline := time.Now().Add(heedPatience)
	for {
		withdraws = b.given(ctx, part, withdraws)
		if len(withdraws) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			symbol, _ := b.names.of(withdraws[0].Prefix)
			why := routers.Errorf(routers.ErrRefused, "%s is 1, which does not disable what gives %s: write `disabled %[1]s;` there", symbol, few(textsOf(withdraws)))
			return routers.Join(why, b.fallBack(ctx, part, withdraws, why))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(heedEvery):
		}
	}
}

// given gives those of the changes whose prefix a peer is given for a route of this node's. What cannot be read is
// left to the next reading.
func (b byInclude) given(ctx context.Context, part part, cs []routers.Change) []routers.Change {
	if len(cs) == 0 {
		return nil
	}
	sights, err := observe(ctx, part, b.options, prefixesOf(cs))
	return slices.DeleteFunc(slices.Clone(cs), func(c routers.Change) bool {
		s, ok := sights[c.Prefix]
		if err != nil || !ok {
			return true
		}
		by, _ := s.whose()
		return by == ""
	})
}

func textsOf(cs []routers.Change) []string {
	var out []string
	for _, p := range prefixesOf(cs) {
		out = append(out, p.String())
	}
	return out
}
