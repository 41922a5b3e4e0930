package dns

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/miekg/dns"

	"vouch/checks"
	"vouch/checks/listener"
)

// ednsSize is what fits through any path unfragmented (DNS flag day 2020).
const ednsSize = 1232

type checker struct {
	listener.Watcher // of the port for TCP, which the process that serves UDP has too
	peer
	question  dns.Question
	random    bool // a random label before the name
	recurse   bool
	dnssec    bool
	want      expectation
	reference *peer // whose serial is compared, or nil
	lag       uint32
	maxAge    time.Duration // of the serial; 0: any
}

// String gives such as "udp 127.0.0.1:53 . NS".
func (c *checker) String() string {
	name := c.question.Name
	if c.random {
		name = under("*", name)
	}
	s := c.proto + " " + c.server.String() + " " + name + " "
	if c.question.Qclass != dns.ClassINET {
		s += dns.ClassToString[c.question.Qclass] + " "
	}
	return s + dns.TypeToString[c.question.Qtype]
}

// Check asks once, from a fresh socket and with a fresh id.
func (c *checker) Check(ctx context.Context) error {
	allowed := checks.Allowed(ctx, time.Now())
	query := c.query()
	reply, sent, err := c.fetch(ctx, query, allowed)
	if err == nil {
		err = c.want.judge(ctx, query, reply)
	}
	if err == nil && (c.reference != nil || c.maxAge > 0) {
		err = c.judgeSerial(ctx, query, reply, allowed)
	}
	return checks.Told(err, sent)
}

// query makes the question.
func (c *checker) query() *dns.Msg {
	q := c.question
	if c.random {
		q.Name = under(randomLabel(), q.Name)
	}
	m := &dns.Msg{MsgHdr: dns.MsgHdr{Id: dns.Id(), RecursionDesired: c.recurse, AuthenticatedData: c.dnssec}, Question: []dns.Question{q}}
	m.SetEdns0(ednsSize, c.dnssec)
	if c.want.nsid != nil {
		opt := m.IsEdns0()
		opt.Option = append(opt.Option, &dns.EDNS0_NSID{Code: dns.EDNS0NSID})
	}
	return m
}

// under gives the name of a label below another name.
func under(label, name string) string { return label + "." + strings.TrimPrefix(name, ".") }

// randomLabel gives a label of 16 characters.
func randomLabel() string {
	var b [10]byte
	_, _ = rand.Read(b[:]) // it does not fail
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}

// fetch asks, and asks again over tcp if the answer did not fit. It tells also from where the answer was asked for. The
// error is a *checks.Failure.
func (p *peer) fetch(ctx context.Context, query *dns.Msg, allowed string) (reply *dns.Msg, sent string, err error) {
	reply, sent, err = p.ask(ctx, p.proto, query, allowed)
	switch {
	case errors.Is(err, errLarge):
		return p.again(ctx, query, allowed, fmt.Sprintf("the answer over udp was larger than %d bytes", bufferSize))
	case err != nil:
		return nil, "", err
	case reply.Truncated && p.proto == "udp":
		return p.again(ctx, query, allowed, "the answer over udp is truncated")
	case reply.Truncated:
		return nil, "", checks.Told(truncated(p.proto), sent)
	}
	return reply, sent, nil
}

// again asks over tcp, and says why.
func (p *peer) again(ctx context.Context, query *dns.Msg, allowed, why string) (reply *dns.Msg, sent string, err error) {
	checks.Tracef(ctx, checks.Note, "%s: asking again over tcp", why)
	query = query.Copy()
	query.Id = dns.Id()
	if reply, sent, err = p.ask(ctx, "tcp", query, allowed); err == nil && reply.Truncated {
		err = checks.Told(truncated("tcp"), sent)
	}
	if err != nil {
		return nil, "", fallback(why, err)
	}
	return reply, sent, nil
}

func truncated(proto string) error {
	return &checks.Failure{Reason: checks.ReasonProtocol, Detail: "the answer over " + proto + " is truncated"}
}

// fallback says of a failure that it met the second try, over tcp. That it is a timeout the reason says, which is
// shown before it.
func fallback(why string, err error) error {
	f := prefixed("over tcp, as "+why, err)
	f.Detail = strings.Replace(f.Detail, ": timeout after ", ": no answer within ", 1)
	return f
}

// prefixed puts words before the detail of a failure.
func prefixed(words string, err error) *checks.Failure {
	f := &checks.Failure{Reason: checks.Result{Start: time.Now(), Err: err}.Reason(), Err: err}
	if inner := (*checks.Failure)(nil); errors.As(err, &inner) {
		*f = *inner
	}
	f.Detail = strings.TrimSuffix(words+": "+f.Detail, ": ")
	return f
}
