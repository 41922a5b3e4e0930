package bird

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"slices"
	"syscall"

	"vouch/routers"
	"vouch/routers/bird/ctl"
	"vouch/routers/bird/include"
)

// away puts what is withdrawn into the file while BIRD does not answer, so that it is not announced when
// BIRD comes: at boot, or after a crash. What is to be announced waits for BIRD to be asked.
func (b byInclude) away(cs []routers.Change, why error) error {
	withdraws := withdrawsOf(cs)
	errs := []error{why}
	for _, v4 := range []bool{true, false} {
		mine := slices.DeleteFunc(slices.Clone(withdraws), func(c routers.Change) bool { return c.Prefix.Addr().Is4() != v4 })
		if len(mine) > 0 {
			errs = append(errs, b.shelve(mine, notRunning(why)))
		}
	}
	return routers.Join(errs...)
}

// notRunning tells whether there is no BIRD, while one that hangs is there.
func notRunning(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

// shelve writes withdraws of one family into the file. A file that is not there is made only where no BIRD
// is: what one that runs announces, by a file that was lost, it could not be asked.
func (b byInclude) shelve(withdraws []routers.Change, none bool) error {
	v := b.foreseen()
	first := withdraws[0].Prefix
	path, err := b.path(v, first.Addr().Is4())
	if err != nil {
		return err
	}
	old, err := include.Read(path)
	if err != nil {
		return err
	}
	es, _, err := held(path, old)
	if err != nil {
		return err
	}
	if len(es) == 0 && !none {
		return nil
	}
	only := netip.Prefix{}
	if v.Major == 1 {
		only = first
	}
	es.name(b.names, only)
	es.change(withdraws)
	text := es.render(b.format(v))
	if bytes.Equal(text, old) {
		return nil
	}
	if err := include.Write(path, text); err != nil {
		return err
	}
	return routers.Errorf(routers.ErrUnavailable, "%s says that it is withdrawn, for when bird reads it", path)
}

// foreseen is the BIRD that will read the file: the one that it was written for, or a guess. 2.0 and
// whatever came after it take the same words; two files are for 1.6 alone.
func (b byInclude) foreseen() ctl.Version {
	if text, err := include.Read(b.options.Include); err == nil {
		if _, v, err := held(b.options.Include, text); err == nil && v.Major > 0 {
			return v
		}
	}
	if b.options.Include6 != "" {
		return ctl.Version{Major: 1, Minor: 6}
	}
	return ctl.Version{Major: 2}
}

// refused finds out whose mistake it is that BIRD does not take its configuration. When it is ours, the file
// is put back as it was. When it is another's, the file stays, so that what is withdrawn stays so once that
// is mended, and what can be is withdrawn at run time.
func (b byInclude) refused(ctx context.Context, part part, path string, old, text []byte, cs []routers.Change, why error) error {
	if refusal := (*ctl.Refusal)(nil); !errors.As(why, &refusal) {
		return routers.Join(include.Write(path, old), b.away(cs, why))
	}
	if err := include.Write(path, old); err != nil {
		return routers.Join(why, err)
	}
	if err := check(ctx, part); err == nil {
		return routers.Errorf(why, "%s is put back as it was: %w", path, why)
	}
	if err := include.Write(path, text); err != nil {
		return routers.Join(why, err)
	}
	err := routers.Errorf(why, "bird does not take its configuration, with or without what is new in %s: mend it, and `birdc configure`: %w", path, why)
	return routers.Join(err, b.disable(ctx, part, cs))
}

// disable withdraws without the configuration: it disables the static protocols that hold nothing but
// prefixes which are to go. Any configure that succeeds enables them again, as far as the file lets it.
func (b byInclude) disable(ctx context.Context, part part, cs []routers.Change) error {
	going := map[netip.Prefix]bool{}
	for _, c := range withdrawsOf(cs) {
		going[c.Prefix] = true
	}
	if len(going) == 0 {
		return nil
	}
	sights, err := observe(ctx, part, b.options, part.prefixes)
	if err != nil {
		return err
	}
	var commands []string
	for p, s := range sights {
		for _, r := range s.own {
			command := "disable " + quoted(r.protocol)
			if going[p] && !r.connected() && !slices.Contains(commands, command) && holdsOnly(ctx, part, r.protocol, going) {
				commands = append(commands, command)
			}
		}
	}
	if len(commands) == 0 {
		return nil
	}
	_, err = part.change(ctx, commands...)
	return err
}

// holdsOnly tells whether all routes of a protocol are to the prefixes.
func holdsOnly(ctx context.Context, t talker, protocol string, going map[netip.Prefix]bool) bool {
	command := "show route protocol " + quoted(protocol)
	replies, err := t.read(ctx, command)
	if err != nil {
		return false
	}
	rs, err := parseRoutes(replies[0], command, "")
	return err == nil && len(rs) > 0 && !slices.ContainsFunc(rs, func(r route) bool { return !going[r.prefix] })
}
