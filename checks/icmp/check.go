package icmp

import (
	"context"
	"crypto/rand"
	"errors"
	"net/netip"
	"os"
	"time"

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
		return err
	}
	defer socket.Close()
	r := &round{checker: c, socket: socket, end: end, gap: min(mostGap, end.Sub(start)/2/time.Duration(c.count)),
		payload: make([]byte, c.size), buf: make([]byte, c.size+maxHeaders), tally: newTally(c.count, c.maxLoss)}
	_, _ = rand.Read(r.payload[:token]) // never fails
	if err := r.run(ctx); err != nil {
		return checks.NetFailure(ctx, "a request could not be sent", err)
	}
	if r.tally.enough() {
		return nil
	}
	if ctx.Err() == context.Canceled {
		return checks.NetFailure(ctx, "", ctx.Err())
	}
	return r.tally.failure(socket.From(), checks.Allowed(ctx, start))
}

// maxHeaders is what may come before a payload: an IPv4 header with all its options, and that of ICMP.
const maxHeaders = 60 + datagram.EchoHeader

// A round is one Check.
type round struct {
	*checker
	socket  *datagram.Socket
	end     time.Time
	gap     time.Duration
	payload []byte
	buf     []byte
	tally   *tally
	sent    int
}

// run ends when the tally is decided or the time is over.
func (r *round) run(ctx context.Context) error {
	next := time.Now()
	for !r.tally.decided() {
		until := r.end
		if r.sent < r.count {
			if !time.Now().Before(next) {
				if err := r.send(ctx); err != nil {
					return err
				}
				next = next.Add(r.gap)
				continue
			}
			until = next
		}
		m, err := r.socket.Read(ctx, until, r.buf)
		switch {
		case err == nil:
			r.hear(ctx, m)
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case ctx.Err() != nil, !time.Now().Before(r.end):
			return nil
		}
	}
	return nil
}

func (r *round) send(ctx context.Context) error {
	seq := r.sent
	r.sent++
	checks.Tracef(ctx, checks.Sent, "echo request %d of %d to %s from %s, %d bytes of payload", seq+1, r.count, r.address, r.socket.From(), r.size)
	err := r.socket.Write(r.socket.Request(uint16(seq), r.payload))
	var o *datagram.Objection
	if errors.As(err, &o) {
		checks.Tracef(ctx, checks.Got, "%v", o)
		r.tally.object(seq, o)
		return nil
	}
	return err
}

// hear judges what came.
func (r *round) hear(ctx context.Context, m datagram.Message) {
	if m.Objection != nil {
		seq, ours := r.socket.Asked(m.Objection)
		checks.Tracef(ctx, checks.Got, "%v%s", m.Objection, ofOthers(ours))
		if ours {
			r.tally.object(int(seq), m.Objection)
		}
		return
	}
	seq, payload, ours := r.socket.Reply(m.Data)
	ours = ours && string(payload) == string(r.payload)
	checks.Tracef(ctx, checks.Got, "%d bytes from %s%s", len(m.Data), m.By, ofOthers(ours))
	switch {
	case !ours:
	case m.By.WithZone("") == r.address.WithZone(""):
		r.tally.reply(int(seq))
	case !r.tally.impostor.IsValid():
		r.tally.impostor = m.By
	}
}

func ofOthers(ours bool) string {
	if ours {
		return ""
	}
	return ": not about these requests"
}
