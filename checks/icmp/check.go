package icmp

import (
	"context"
	"crypto/rand"
	"errors"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"vouch/checks"
	"vouch/checks/datagram"
)

const (
	// token begins each payload, and tells replies to this round from any other.
	token = 16
	// noDeadline bounds a round whose context has no deadline of its own.
	noDeadline = 30 * time.Second
	// mostGap is the most that lies between two requests.
	mostGap = 200 * time.Millisecond
	// patience is the part of a round for which a reply is waited for after an objection: anybody may forge
	// one, and a router on one of several ways may send one in error.
	patience = 4
	// mostDropped is how many requests that find no room are sent again.
	mostDropped = 2
)

type checker struct {
	address              netip.Addr
	origin               checks.Origin
	count, maxLoss, size int
}

// String gives the address.
func (c *checker) String() string { return c.address.String() }

// Check sends the requests from a fresh socket, and listens until their number decides.
func (c *checker) Check(ctx context.Context) error {
	start := time.Now()
	end, ok := ctx.Deadline()
	if !ok {
		end = start.Add(noDeadline)
	}
	socket, err := datagram.Echo(ctx, datagram.Options{Origin: c.origin}, c.address)
	if err != nil {
		return withoutRights(c.address, err)
	}
	defer socket.Close()
	sent := c.origin.Sent(socket.From().String())
	r := &round{checker: c, socket: socket, end: end, gap: min(mostGap, end.Sub(start)/2/time.Duration(c.count)), patience: end.Sub(start) / patience,
		payload: make([]byte, c.size), buf: make([]byte, c.size+maxHeaders), tally: newTally(c.count, c.maxLoss)}
	_, _ = rand.Read(r.payload[:token]) // never fails
	err = r.run(ctx)
	if more := r.others - shownOthers; more > 0 {
		checks.Tracef(ctx, checks.Got, "and %d more that are not about these requests", more)
	}
	if err != nil {
		return checks.Told(checks.NetFailure(ctx, "a request could not be sent", err), sent)
	}
	if r.tally.enough() {
		return nil
	}
	if ctx.Err() == context.Canceled {
		return checks.NetFailure(ctx, "", ctx.Err())
	}
	return r.tally.failure(sent, checks.Allowed(ctx, start))
}

// withoutRights has it be unknown what a process that may not ping would find: that says nothing of the target,
// and one setting would take down every node that has it. Local tells of it at start.
func withoutRights(target netip.Addr, err error) error {
	var f *checks.Failure
	if errors.As(err, &f) && f.Reason == checks.ReasonDenied && errors.As(datagram.MayEcho(target), &f) {
		return &checks.Failure{Reason: checks.ReasonUnknown, Detail: f.Detail, Err: f.Err}
	}
	return err
}

// maxHeaders is what may come before a payload: an IPv4 header with all its options, and that of ICMP.
const maxHeaders = 60 + datagram.EchoHeader

// A round is one Check.
type round struct {
	*checker
	socket   *datagram.Socket
	end      time.Time
	gap      time.Duration
	patience time.Duration
	given    time.Time // when patience ends; zero: nothing tries it
	payload  []byte
	buf      []byte
	tally    *tally
	sent     int
	dropped  int // requests that were to be sent again
	others   int // messages that were not about these requests
}

// shownOthers is how many of those are shown.
const shownOthers = 10

// traceGot shows what came, of what is none of ours the first alone.
func (r *round) traceGot(ctx context.Context, ours bool, format string, args ...any) {
	if !ours {
		r.others++
	}
	if ours || r.others <= shownOthers {
		checks.Tracef(ctx, checks.Got, format, args...)
	}
}

// run ends when the tally is decided or the time is over.
func (r *round) run(ctx context.Context) error {
	next := time.Now()
	for !r.tally.enough() {
		until := r.until(time.Now())
		end := until
		if r.sent < r.count {
			if !time.Now().Before(next) {
				if err := r.send(ctx); err != nil {
					return err
				}
				next = next.Add(r.gap)
				continue
			}
			until = earlier(until, next)
		}
		m, err := r.socket.Read(ctx, until, r.buf)
		switch {
		case err == nil:
			r.hear(ctx, m)
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case ctx.Err() != nil, !time.Now().Before(end):
			return nil
		}
	}
	return nil
}

// until is when the round ends: a while after its fate seems sealed.
func (r *round) until(now time.Time) time.Time {
	switch {
	case !r.tally.doomed():
		r.given = time.Time{}
		return r.end
	case r.given.IsZero():
		r.given = now.Add(r.patience)
	}
	return earlier(r.given, r.end)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func (r *round) send(ctx context.Context) error {
	seq := r.sent
	r.sent++
	checks.Tracef(ctx, checks.Sent, "echo request %d of %d to %s from %s, %d bytes of payload", seq+1, r.count, r.address, r.socket.From(), r.size)
	err := r.socket.Write(r.socket.Request(uint16(seq), r.payload))
	var o *datagram.Objection
	switch {
	case errors.As(err, &o):
		checks.Tracef(ctx, checks.Got, "%v", o)
		r.tally.object(seq, o)
		return nil
	case errors.Is(err, unix.ENOBUFS):
		checks.Tracef(ctx, checks.Got, "it was dropped at once: %v", err)
		r.drop()
		return nil
	}
	return err
}

// drop notes that the request just sent went nowhere.
func (r *round) drop() {
	if r.dropped < mostDropped {
		r.dropped++
		r.sent--
		return
	}
	r.tally.unsent++
}

// hear judges what came.
func (r *round) hear(ctx context.Context, m datagram.Message) {
	if m.Objection != nil {
		seq, ours := r.socket.Asked(m.Objection)
		what := ofOthers(ours)
		if ours && !r.final(m.Objection) {
			ours, what = false, ", which is no reason to give up"
		}
		r.traceGot(ctx, ours, "%v%s", m.Objection, what)
		if ours {
			r.tally.object(int(seq), m.Objection)
		}
		return
	}
	seq, payload, ours := r.socket.Reply(m.Data)
	ours = ours && string(payload) == string(r.payload)
	r.traceGot(ctx, ours, "%d bytes from %s%s", len(m.Data), m.By, ofOthers(ours))
	switch {
	case !ours:
	case m.By.WithZone("") == r.address.WithZone(""):
		r.tally.reply(int(seq))
	case !r.tally.impostor.IsValid():
		r.tally.impostor = m.By
	}
}

// final says whether an objection means that the request will not arrive. Source quench (RFC 6633), a redirect, and a
// complaint of the header (what the kernel makes of both is EREMOTEIO and EPROTO) do not; nor does the word that
// a packet is too big which is not.
func (r *round) final(o *datagram.Objection) bool {
	if o.TooBig() {
		return o.MTU < datagram.IPHeader(r.address)+datagram.EchoHeader+r.size
	}
	return o.Errno != unix.EREMOTEIO && o.Errno != unix.EPROTO
}

func ofOthers(ours bool) string {
	if ours {
		return ""
	}
	return ": not about these requests"
}
