package mtu

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"vouch/checks"
	"vouch/checks/datagram"
)

const (
	// noDeadline bounds a round whose context has no deadline of its own.
	noDeadline = 30 * time.Second
	// tries is how often each packet is sent, so that one that is lost by chance tells nothing.
	tries = 3
	// patience is the part of a round for which an answer is waited for after an objection: anybody may forge one,
	// and a router on one of several ways may send one in error.
	patience = 4
)

type checker struct {
	targets []netip.AddrPort
	bytes   int
	quic    bool
	all     bool
	origin  checks.Origin
}

// String gives such as "1280 bytes to 192.0.2.1, 198.51.100.1".
func (c *checker) String() string {
	var names []string
	for _, to := range c.targets {
		names = append(names, (&finding{to: to, quic: c.quic}).name())
	}
	how := ""
	if c.quic {
		how = "over quic "
	}
	return fmt.Sprintf("%d bytes %sto %s", c.bytes, how, strings.Join(names, ", "))
}

// Check probes all destinations side by side, each from a fresh socket.
func (c *checker) Check(ctx context.Context) error {
	start := time.Now()
	end, ok := ctx.Deadline()
	if !ok {
		end = start.Add(noDeadline)
	}
	inner, enough := context.WithCancel(ctx)
	defer enough()
	findings := make([]*finding, len(c.targets))
	var wg sync.WaitGroup
	for i, to := range c.targets {
		f := &finding{to: to, bytes: c.bytes, quic: c.quic}
		findings[i] = f
		p, err := c.probe(inner, f)
		if err != nil {
			f.err = c.withoutRights(to.Addr(), err)
			continue
		}
		wg.Go(func() {
			defer p.socket.Close()
			p.run(inner, start, end)
			if f.large && !c.all {
				enough()
			}
		})
	}
	wg.Wait()
	for _, f := range findings {
		if f.own != nil {
			f.link = c.link(f)
		}
	}
	err := sum(c.all, findings, checks.Allowed(ctx, start))
	if err != nil && ctx.Err() == context.Canceled {
		return checks.NetFailure(ctx, "", ctx.Err())
	}
	return err
}

// probe opens a socket. It is done here and not in the goroutine that uses it, as a thread may be in a network
// namespace of its own.
func (c *checker) probe(ctx context.Context, f *finding) (*probe, error) {
	o := datagram.Options{Origin: c.origin, Whole: true}
	header := datagram.IPHeader(f.to.Addr())
	if c.quic {
		f.small = header + udpHeader + leastQUIC
		s, err := datagram.UDP(ctx, o, f.to)
		if err != nil {
			return nil, err
		}
		f.from, f.sent = s.From(), c.origin.Sent(s.From().String())
		return &probe{f, s, newNegotiator(f.bytes-header-udpHeader, f.small < f.bytes)}, nil
	}
	f.small = smallBytes
	s, err := datagram.Echo(ctx, o, f.to.Addr())
	if err != nil {
		return nil, err
	}
	f.from, f.sent = s.From(), c.origin.Sent(s.From().String())
	return &probe{f, s, newEcho(s, f.bytes-header-datagram.EchoHeader, smallBytes-header-datagram.EchoHeader)}, nil
}

// withoutRights has it be unknown what a process that may not ping would find: that says nothing of the path, and
// one setting would take down every node that has it. Local tells of it at start.
func (c *checker) withoutRights(to netip.Addr, err error) error {
	var f *checks.Failure
	if !c.quic && errors.As(err, &f) && f.Reason == checks.ReasonDenied && errors.As(datagram.MayEcho(to), &f) {
		return &checks.Failure{Reason: checks.ReasonUnknown, Detail: f.Detail, Err: f.Err}
	}
	return err
}

// link names the interface that a finding's packets leave by, if there is one that has their source
// address and the MTU that was told.
func (c *checker) link(f *finding) string {
	if c.origin.Device != "" {
		return c.origin.Device
	}
	links, _ := net.Interfaces()
	for _, l := range links {
		addrs, _ := l.Addrs()
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr() == f.from.WithZone("") && l.MTU == f.own.MTU {
				return l.Name
			}
		}
	}
	return ""
}

// A speech is how packets are made, and answers known.
type speech interface {
	packets() (large, small []byte) // small: nil if there is none
	answers(b []byte) (large, small bool)
	about(o *datagram.Objection) (large, ours bool)
}

// A probe is what goes on towards one destination.
type probe struct {
	*finding
	socket *datagram.Socket
	speech speech
}

// run sends, listens and sends again until it is decided, or the time or its patience is over.
func (p *probe) run(ctx context.Context, start, end time.Time) {
	buf := make([]byte, p.bytes+64) // and an IPv4 header with options
	var given time.Time
	for try := range tries {
		if err := p.send(ctx); err != nil {
			p.err = checks.NetFailure(ctx, "a packet could not be sent", err)
		}
		until := start.Add(end.Sub(start) * time.Duration(try+1) / tries)
		for !p.decided() {
			if p.doomed() && given.IsZero() {
				given = time.Now().Add(end.Sub(start) / patience)
			}
			m, err := p.socket.Read(ctx, soonest(until, given), buf)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				p.err = checks.NetFailure(ctx, "", err)
				break
			}
			p.hear(ctx, m)
		}
		if p.decided() || ctx.Err() != nil || !given.IsZero() && !time.Now().Before(given) {
			return
		}
	}
}

// soonest is the earlier of two times; a zero one is none.
func soonest(until, given time.Time) time.Time {
	if !given.IsZero() && given.Before(until) {
		return given
	}
	return until
}

func (p *probe) send(ctx context.Context) error {
	b, s := p.speech.packets()
	if err := p.sendOne(ctx, b, p.bytes, &p.left[large]); err != nil || s == nil || p.little || p.decided() {
		return err
	}
	return p.sendOne(ctx, s, p.small, &p.left[small])
}

func (p *probe) sendOne(ctx context.Context, b []byte, size int, left *sends) error {
	checks.Tracef(ctx, checks.Sent, "a packet of %d bytes to %s from %s", size, p.name(), p.from)
	left.all++
	err := p.socket.Write(b)
	var o *datagram.Objection
	switch {
	case errors.As(err, &o):
		checks.Tracef(ctx, checks.Got, "%v", o)
		p.object(o)
		return nil
	case errors.Is(err, unix.ENOBUFS):
		checks.Tracef(ctx, checks.Got, "it was dropped at once: %v", err)
		left.lost++
		return nil
	}
	return err
}

func (p *probe) hear(ctx context.Context, m datagram.Message) {
	if m.Objection != nil {
		large, ours := p.speech.about(m.Objection)
		checks.Tracef(ctx, checks.Got, "%v", m.Objection)
		if ours && (large || !m.Objection.TooBig()) {
			p.object(m.Objection)
		}
		return
	}
	large, small := p.speech.answers(m.Data)
	if m.By.WithZone("") != p.to.Addr().WithZone("") {
		large, small = false, false
	}
	checks.Tracef(ctx, checks.Got, "%d bytes from %s%s", len(m.Data), m.By, which(large, small))
	p.large, p.little = p.large || large, p.little || small
}

func which(large, small bool) string {
	switch {
	case large:
		return ", the answer to the large packet"
	case small:
		return ", the answer to the small packet"
	}
	return ", which answers nothing that was sent"
}
