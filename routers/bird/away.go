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
			written, err := b.shelve(v4, mine, notRunning(why))
			if written != "" {
				err = routers.Errorf(routers.ErrUnavailable, "%s says that it is withdrawn, for when bird reads it", written)
			}
			errs = append(errs, err)
		}
	}
	return routers.Join(errs...)
}

// prepare makes the file where no BIRD runs, as one cannot come without it, and puts in what is managed and not
// in it yet, withdrawn.
func (b byInclude) prepare(ctx context.Context, ps []netip.Prefix) error {
	var errs []error
	for _, part := range b.daemons.split(ctx, ps) {
		if _, err := part.version(ctx); !notRunning(err) {
			continue
		}
		for _, v4 := range []bool{true, false} {
			if slices.ContainsFunc(part.prefixes, func(p netip.Prefix) bool { return p.Addr().Is4() == v4 }) {
				_, err := b.shelve(v4, nil, true)
				errs = append(errs, err)
			}
		}
	}
	return routers.Join(errs...)
}

// notRunning tells whether there is no BIRD, while one that hangs is there.
func notRunning(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

// shelve writes withdraws of one family into the file, and gives its path where that has changed it. A file
// that is not there is made only where no BIRD is: what one that runs announces, by a file that was lost, it
// could not be asked.
func (b byInclude) shelve(v4 bool, withdraws []routers.Change, none bool) (written string, err error) {
	v := b.foreseen()
	path, err := b.path(v, v4)
	if err != nil {
		return "", err
	}
	old, err := b.memo.read(path)
	if err != nil {
		return "", err
	}
	es, _, err := parseEntries(path, old)
	if err != nil {
		return "", err
	}
	if len(es) == 0 && !none {
		return "", nil
	}
	only := netip.Prefix{}
	if v.Major == 1 {
		only = anyOf(v4)
	}
	es.name(b.names, only)
	for _, c := range withdraws {
		es.add(b.names, c.Prefix)
	}
	es.change(b.options.Style, withdraws)
	text := es.render(b.format(v))
	if bytes.Equal(text, old) {
		return "", nil
	}
	if err := b.memo.write(path, text); err != nil {
		return "", err
	}
	return path, nil
}

// anyOf is some prefix of a family.
func anyOf(v4 bool) netip.Prefix {
	if v4 {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
}

// foreseen is the BIRD that will read the file: the one that it was written for, or a guess. 2.0 and
// whatever came after it take the same words; two files are for 1.6 alone.
func (b byInclude) foreseen() ctl.Version {
	if text, err := include.Read(b.options.Include); err == nil {
		if _, v, err := parseEntries(b.options.Include, text); err == nil && v.Major > 0 {
			return v
		}
	}
	if b.options.Include6 != "" {
		return ctl.Version{Major: 1, Minor: 6}
	}
	return ctl.Version{Major: 2}
}
