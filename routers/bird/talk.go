package bird

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"vouch/routers"
	"vouch/routers/bird/ctl"
)

// patience is how long a change may take to be answered. BIRD 2.0.12 answers nothing while it reads its
// configuration: 1.7 s were measured for one of 400,000 routes.
const patience = 10 * time.Second

// A talker puts commands to one BIRD. It gives one reply for each command, in order, and refusals are
// replies too: see ctl.Reply.Refused. It fails as a whole, with an error of a class of package routers,
// when a reply is missing. It may be called concurrently.
type talker interface {
	// read asks. BIRD refuses what would change anything.
	read(ctx context.Context, commands ...string) ([]ctl.Reply, error)
	// change asks for changes, each of them whatever became of those before.
	change(ctx context.Context, commands ...string) ([]ctl.Reply, error)
	// version is that of the BIRD which is there now.
	version(ctx context.Context) (ctl.Version, error)
	// ended returns nil once the BIRD that is there now has ended, and an error when none is there, or
	// when ctx ends first.
	ended(ctx context.Context) error
	close()
}

// quoted makes a symbol of a name as BIRD's commands want it, also when it is one of BIRD's keywords or
// has a character such as "-". No symbol can hold a single quote.
func quoted(name string) string { return "'" + name + "'" }

// daemons are all of BIRD on this host: one for both families, and with 1.6 a second one for IPv6.
type daemons struct {
	main talker // both families, or IPv4
	six  talker // bird6 of 1.6
}

// newDaemons makes the talkers that options (with their defaults) ask for. Nothing is connected yet.
func newDaemons(o Options) daemons {
	return daemons{
		main: newTalker(o, func() string { return place(o.Socket, Sockets) }, o.Birdc),
		six:  newTalker(o, func() string { return place(o.Socket6, Sockets6) }, o.Birdc6),
	}
}

// newTalker talks to the BIRD whose socket is where. That is asked each time, as BIRD may not have been
// there when we began.
func newTalker(o Options, where func() string, birdc string) talker {
	socket := &bySocket{where: where, timeout: o.Timeout}
	program := &byCommand{where: where, birdc: birdc, timeout: o.Timeout}
	switch o.Via {
	case ViaSocket:
		return socket
	case ViaCommand:
		return program
	}
	return &orElse{socket, program}
}

// place is the socket that was set, or the first of the usual ones that is there, or the first of them.
func place(set string, usual []string) string {
	if set != "" {
		return set
	}
	for _, path := range usual {
		if _, err := os.Lstat(path); err == nil {
			return path
		}
	}
	return usual[0]
}

// of gives the BIRD that has the family of a prefix. When it cannot be told, it is the main one.
func (d daemons) of(ctx context.Context, p netip.Prefix) talker {
	if p.Addr().Is4() {
		return d.main
	}
	if v, err := d.main.version(ctx); err == nil {
		if v.Major == 1 {
			return d.six
		}
		return d.main
	}
	if v, err := d.six.version(ctx); err == nil && v.Major == 1 {
		return d.six
	}
	return d.main
}

// A part is what one BIRD has to do with.
type part struct {
	talker
	prefixes []netip.Prefix
}

// of is the same BIRD with other prefixes.
func (p part) of(ps []netip.Prefix) part { return part{p.talker, ps} }

// split parts the prefixes by the BIRD that has their family, each in the order given.
func (d daemons) split(ctx context.Context, ps []netip.Prefix) []part {
	main, six := part{talker: d.main}, part{}
	for _, p := range ps {
		if !p.Addr().Is4() && six.talker == nil {
			six.talker = d.of(ctx, p)
		}
		if p.Addr().Is4() || six.talker == d.main {
			main.prefixes = append(main.prefixes, p)
		} else {
			six.prefixes = append(six.prefixes, p)
		}
	}
	return slices.DeleteFunc([]part{main, six}, func(p part) bool { return len(p.prefixes) == 0 })
}

func (d daemons) close() {
	d.main.close()
	d.six.close()
}

// bySocket talks over the control socket. It keeps one session for reading, which cannot change anything;
// changes are seldom, and have a session each.
type bySocket struct {
	where   func() string
	timeout time.Duration

	mu   sync.Mutex
	kept *ctl.Session
}

func (b *bySocket) read(ctx context.Context, commands ...string) ([]ctl.Reply, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	replies, last, err := converse(ctx, b.kept, b.open, commands)
	b.kept = last
	return replies, err
}

// open begins a session for reading.
func (b *bySocket) open(ctx context.Context) (*ctl.Session, error) {
	s, err := ctl.Dial(ctx, b.where(), b.timeout)
	if err != nil {
		return nil, err
	}
	if err := s.Restrict(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (b *bySocket) change(ctx context.Context, commands ...string) ([]ctl.Reply, error) {
	replies, last, err := converse(ctx, nil, func(ctx context.Context) (*ctl.Session, error) {
		s, err := ctl.Dial(ctx, b.where(), b.timeout)
		if err == nil {
			s.SetTimeout(max(patience, b.timeout))
		}
		return s, err
	}, commands)
	if last != nil {
		last.Close()
	}
	return replies, err
}

// version asks something, so that a daemon which is gone, or was put in place of the one we knew, is seen.
func (b *bySocket) version(ctx context.Context) (ctl.Version, error) {
	if _, err := b.read(ctx, "show status"); err != nil {
		return ctl.Version{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.kept == nil { // closed meanwhile
		return ctl.Version{}, routers.Errorf(routers.ErrUnavailable, "%s: the session has ended", b.where())
	}
	return b.kept.Version(), nil
}

func (b *bySocket) ended(ctx context.Context) error {
	s, err := ctl.Dial(ctx, b.where(), b.timeout)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Wait(ctx)
}

func (b *bySocket) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.kept != nil {
		b.kept.Close()
		b.kept = nil
	}
}

// converse puts the commands in session s, or in one that open begins where s is nil. One that was closed
// before it answered is followed by another, which goes on from there: the daemon may have been restarted
// since s was used. BIRD 1.6.8 also closes a session of much use now and then: its buffer of 4096 bytes is
// emptied only when the next command is not there yet, and once full it takes that for the end. A new
// session that answers nothing is an error.
//
// The session to go on with is given back, nil when there is none.
func converse(ctx context.Context, s *ctl.Session, open func(context.Context) (*ctl.Session, error), commands []string) ([]ctl.Reply, *ctl.Session, error) {
	replies := make([]ctl.Reply, 0, len(commands))
	for retry := s != nil; len(replies) < len(commands); {
		if s == nil {
			var err error
			if s, err = open(ctx); err != nil {
				return nil, nil, err
			}
		}
		command := commands[len(replies)]
		r, err := s.Do(ctx, command)
		switch {
		case err == nil:
			replies, retry = append(replies, r), true
			continue
		case errors.Is(err, routers.ErrRefused): // by us: the session is as it was
			return nil, s, err
		}
		s.Close()
		s = nil
		if !errors.Is(err, io.EOF) || !retry {
			return nil, nil, fmt.Errorf("%q: %w", command, err)
		}
		retry = false
	}
	return replies, s, nil
}

// byCommand talks by running birdc, once for each command.
type byCommand struct {
	where   func() string
	birdc   string
	timeout time.Duration
}

func (b *byCommand) run(ctx context.Context, c ctl.Birdc, commands []string) ([]ctl.Reply, ctl.Version, error) {
	c.Program, c.Socket = b.birdc, b.where()
	var v ctl.Version
	replies := make([]ctl.Reply, 0, len(commands))
	for _, cmd := range commands {
		r, version, err := c.Do(ctx, cmd)
		if err != nil {
			return nil, v, err
		}
		replies, v = append(replies, r), version
	}
	return replies, v, nil
}

func (b *byCommand) read(ctx context.Context, commands ...string) ([]ctl.Reply, error) {
	replies, _, err := b.run(ctx, ctl.Birdc{Timeout: b.timeout, ReadOnly: true}, commands)
	return replies, err
}

func (b *byCommand) change(ctx context.Context, commands ...string) ([]ctl.Reply, error) {
	replies, _, err := b.run(ctx, ctl.Birdc{Timeout: max(patience, b.timeout)}, commands)
	return replies, err
}

func (b *byCommand) version(ctx context.Context) (ctl.Version, error) {
	_, v, err := b.run(ctx, ctl.Birdc{Timeout: b.timeout, ReadOnly: true}, []string{"show status"})
	return v, err
}

// ended cannot be told without a session.
func (*byCommand) ended(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func (*byCommand) close() {}

// orElse takes the second way where the first is missing or denied. A daemon that is there and does not
// answer would not answer on another way either.
type orElse struct{ first, second talker }

// firstOf gives what the first way gives, or else the second.
func firstOf[T any](o *orElse, ask func(talker) (T, error)) (T, error) {
	got, err := ask(o.first)
	if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
		return got, err
	}
	got, err2 := ask(o.second)
	const same = "Unable to connect to server control socket" // birdc's own words
	switch {
	case err2 == nil:
		return got, nil
	case strings.Contains(err2.Error(), same):
		return got, err
	}
	return got, fmt.Errorf("%w; %w", err, err2)
}

func (o *orElse) read(ctx context.Context, commands ...string) ([]ctl.Reply, error) {
	return firstOf(o, func(t talker) ([]ctl.Reply, error) { return t.read(ctx, commands...) })
}

func (o *orElse) change(ctx context.Context, commands ...string) ([]ctl.Reply, error) {
	return firstOf(o, func(t talker) ([]ctl.Reply, error) { return t.change(ctx, commands...) })
}

func (o *orElse) version(ctx context.Context) (ctl.Version, error) {
	return firstOf(o, func(t talker) (ctl.Version, error) { return t.version(ctx) })
}

// ended asks the first way only: on the second one nothing would be told when the socket comes back.
func (o *orElse) ended(ctx context.Context) error { return o.first.ended(ctx) }

func (o *orElse) close() {
	o.first.close()
	o.second.close()
}
