package bird

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"vouch/routers"
	"vouch/routers/bird/ctl"
	"vouch/routers/bird/include"
)

// apply writes the file for all prefixes and has BIRD read it.
func (b byInclude) apply(ctx context.Context, cs []routers.Change) error {
	var errs []error
	for _, part := range b.daemons.split(ctx, prefixesOf(cs)) {
		errs = append(errs, b.bring(ctx, part, part.pick(cs)))
	}
	return routers.Join(errs...)
}

func withdrawsOf(cs []routers.Change) []routers.Change {
	var withdraws []routers.Change
	for _, c := range cs {
		if c.Want == routers.Withdrawn {
			withdraws = append(withdraws, c)
		}
	}
	return withdraws
}

// bring makes the changes of one BIRD. Those that BIRD has been told, and does not follow for the sake of
// others, are made apart.
func (b byInclude) bring(ctx context.Context, part part, cs []routers.Change) error {
	v, err := part.version(ctx)
	if err != nil {
		return b.away(cs, err)
	}
	cs, bound := b.names.apart(cs, v.Major == 1)
	err = b.enforce(ctx, part, v, cs)
	return routers.Join(err, b.loosen(ctx, part, bound))
}

// enforce puts the changes in force. Where BIRD refuses them, the withdraws are tried alone: nothing that is to
// be announced may keep them. Where those are not in force then, whatever the reason, they are made at run time.
func (b byInclude) enforce(ctx context.Context, part part, v ctl.Version, cs []routers.Change) error {
	if len(cs) == 0 {
		return nil
	}
	withdraws := withdrawsOf(cs)
	putting, cancel := ctx, func() {}
	if len(withdraws) > 0 {
		putting, cancel = leavingTime(ctx)
	}
	defer cancel()
	resting := b.memo.ask(part.talker, cs)
	err := b.put(putting, part, v, cs)
	if errors.Is(err, routers.ErrRefused) && len(withdraws) > 0 && len(withdraws) < len(cs) {
		alone := b.put(putting, part, v, withdraws)
		if alone == nil {
			b.memo.mended(part.talker)
			return err
		}
		err = routers.Join(err, alone)
	}
	if err == nil {
		b.memo.mended(part.talker)
		return b.heeded(ctx, part, withdraws)
	}
	return routers.Join(err, b.fallBack(ctx, part, withdraws, err), b.rise(ctx, part, resting, err))
}

// leavingTime bounds what may wait for a reconfiguration of somebody's that does not end: a quarter of the time
// stays to withdraw without it.
func leavingTime(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(end)*3/4)
}

// put writes the file, has BIRD check it, and put it in force. It fails where something else puts another file in
// its place meanwhile: BIRD may have read that.
func (b byInclude) put(ctx context.Context, part part, v ctl.Version, cs []routers.Change) error {
	path, err := b.path(v, cs[0].Prefix.Addr().Is4())
	if err != nil {
		return err
	}
	old, err := b.memo.read(path)
	if err != nil {
		return err
	}
	es, err := b.entries(ctx, part, v, path, old, cs)
	if err != nil {
		return err
	}
	o := offer{memo: b.memo, path: path, old: old, there: old, calm: es.lowered(b.options.Style, cs).render(b.format(v))}
	es.change(b.options.Style, cs)
	if err := o.make(ctx, part, b.texts(ctx, part, es, v, cs)); err != nil {
		return o.refused(ctx, part, err)
	}
	b.reload(ctx, part, v, cs)
	if err := configure(ctx, part, v, o.stands); err != nil {
		if refusal := (*ctl.Refusal)(nil); errors.As(err, &refusal) {
			return o.refused(ctx, part, err)
		}
		return err
	}
	return routers.Join(b.insist(ctx, part, v), o.stands())
}

// texts gives what may be written, the best first. Once in a run it is tried whether BIRD's configuration has
// ceased to need what nobody manages any more; never beside a withdraw, which is not to wait for that.
func (b byInclude) texts(ctx context.Context, part part, es entries, v ctl.Version, cs []routers.Change) [][]byte {
	whole, lean := es.render(b.format(v)), es.lean(nil).render(b.format(v))
	if bytes.Equal(whole, lean) || len(withdrawsOf(cs)) > 0 || !b.memo.first() {
		return [][]byte{whole}
	}
	ties, err := b.ties(ctx, part, es)
	if err != nil {
		return [][]byte{whole}
	}
	return [][]byte{es.lean(ties).render(b.format(v)), whole}
}

// An offer is a file that BIRD may take or not.
type offer struct {
	memo  *memo
	path  string
	old   []byte // what was there
	there []byte // what is
	calm  []byte // for when it cannot be had: with what was to be withdrawn, and without what was to be announced
}

// make writes the first of the texts that BIRD takes.
func (o *offer) make(ctx context.Context, t talker, texts [][]byte) error {
	var err error
	for _, text := range texts {
		if err = o.write(text); err != nil {
			return err
		}
		if err = check(ctx, t); err == nil {
			return nil
		}
	}
	return err
}

func (o *offer) write(text []byte) error {
	if bytes.Equal(text, o.there) && (text == nil) == (o.there == nil) {
		return nil
	}
	err := o.memo.write(o.path, text)
	if err == nil {
		o.there = text
	}
	return err
}

// stands says whether the file is what was written.
func (o *offer) stands() error {
	text, err := include.Read(o.path)
	if err == nil && !bytes.Equal(text, o.there) {
		err = routers.Errorf(routers.ErrRefused, "something else has changed %s, or put another in its place, at the moment that vouch wrote it: find who writes it, and take the file out of that", o.path)
	}
	return err
}

// errTheirs is of the errors by which BIRD does not take its configuration, whatever the file says.
var errTheirs = errors.New("the mistake of another")

// refused finds out whose mistake it is that BIRD does not take its configuration. When it is ours, such as a
// symbol that bird.conf defines too, the file is put back as it was. When it is another's, what is withdrawn stays
// in it, so that it stays so once that is mended; what was to be announced does not: it may be another thing then.
func (o *offer) refused(ctx context.Context, t talker, why error) error {
	refusal := (*ctl.Refusal)(nil)
	if !errors.As(why, &refusal) {
		return routers.Join(why, o.write(o.calm))
	}
	if err := o.write(o.old); err != nil {
		return routers.Join(why, err)
	}
	if check(ctx, t) == nil {
		return routers.Errorf(why, "%s is put back as it was: %w", o.path, why)
	}
	if err := o.write(o.calm); err != nil {
		return routers.Join(why, err)
	}
	return routers.Errorf(errors.Join(why, errTheirs), "bird does not take its configuration, with or without what is new in %s: mend it, and `birdc configure`: %w", o.path, why)
}

// entries gives what the file has to hold beside the changes: what it holds already, and of the managed
// prefixes that it does not know, what BIRD has been told or, where it was not, is read to announce.
func (b byInclude) entries(ctx context.Context, part part, v ctl.Version, path string, old []byte, cs []routers.Change) (entries, error) {
	es, _, err := parseEntries(path, old)
	if err != nil {
		return nil, err
	}
	lost := len(es) == 0
	only := netip.Prefix{}
	if v.Major == 1 {
		only = part.prefixes[0]
	}
	unknown := es.name(b.names, only)
	asked := map[netip.Prefix]routers.Want{}
	for _, c := range cs {
		asked[c.Prefix] = c.Want
		es.add(b.names, c.Prefix)
	}
	unknown = slices.DeleteFunc(unknown, func(p netip.Prefix) bool {
		return asked[p] == routers.Withdrawn || asked[p] != routers.Keep && !lost
	})
	return es, b.recall(ctx, part.of(unknown), path, es, asked)
}

// recall puts in what prefixes are that the file does not know. Of one that is asked for nothing need be known.
func (b byInclude) recall(ctx context.Context, part part, path string, es entries, asked map[netip.Prefix]routers.Want) error {
	if len(part.prefixes) == 0 {
		return nil
	}
	told := map[netip.Prefix]value{}
	if err := b.values(ctx, part, told); err != nil {
		return err
	}
	var unknown []netip.Prefix
	for _, p := range part.prefixes {
		if v := told[p]; v.known {
			es.want(p, v.want())
		} else {
			unknown = append(unknown, p)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	// Amidst a reconfiguration of somebody's, 3.1.8 now and then says of a protocol that it is none, and 1.6.8
	// of a table that goes.
	if err := settled(ctx, part); err != nil {
		return err
	}
	os, err := b.observe(ctx, unknown)
	for _, o := range os {
		switch w := announced(o); {
		case w != routers.Keep:
			es.want(o.Prefix, w)
		case asked[o.Prefix] == routers.Keep:
			return routers.Join(routers.Errorf(routers.ErrUnavailable, "%s is not in %s, and cannot be read: %s", o.Prefix, path, o.Detail), err)
		}
	}
	return nil
}

// announced is what a prefix is read to be; Keep where that is not known.
func announced(o routers.Observation) routers.Want {
	switch {
	case o.Stage == routers.Unknown:
		return routers.Keep
	case o.Stage == routers.Absent:
		return routers.Withdrawn
	case o.Degraded:
		return routers.Degraded
	}
	return routers.Announced
}
