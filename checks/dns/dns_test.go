package dns

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"vouch/checks"
	"vouch/checks/checktest"
)

// probe validates the spec and checks once, for at most five seconds.
func probe(t *testing.T, s Spec) error {
	t.Helper()
	return probeFor(t, s, 5*time.Second)
}

func probeFor(t *testing.T, s Spec, d time.Duration) error {
	t.Helper()
	if ps := s.Validate(); ps != nil {
		t.Fatalf("problems: %+v", ps)
	}
	c, err := s.New()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return c.Check(ctx)
}

// want checks the reason of a failure, and that its text holds each of the words.
func want(t *testing.T, err error, reason checks.Reason, words ...string) {
	t.Helper()
	if reason == "" {
		if err != nil {
			t.Errorf("failed: %v", err)
		}
		return
	}
	var f *checks.Failure
	if !errors.As(err, &f) || f.Reason != reason {
		t.Errorf("got %v, want reason %s", err, reason)
		return
	}
	for _, w := range words {
		if !strings.Contains(f.Error(), w) {
			t.Errorf("%q does not say %q", f, w)
		}
	}
}

func accept(t *testing.T, v any) (a Accept) {
	t.Helper()
	if err := a.UnmarshalTOML(v); err != nil {
		t.Fatal(err)
	}
	return a
}

var (
	ok      = checktest.Answer(dns.RcodeSuccess)
	wrongID = checktest.Change(func(m *dns.Msg) { m.Id++ })
	wrongQ  = checktest.Change(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeMX })
	garbage = checktest.Bytes(func([]byte) []byte { return []byte("garbage") })
	half    = checktest.Bytes(func(b []byte) []byte { return b[:len(b)/2] })
	noQR    = checktest.Change(func(m *dns.Msg) { m.Response = false })
	notify  = checktest.Change(func(m *dns.Msg) { m.Opcode = dns.OpcodeNotify })
	bareErr = checktest.Change(func(m *dns.Msg) { m.Rcode, m.Question, m.Answer = dns.RcodeFormatError, nil, nil })
	bareOK  = checktest.Change(func(m *dns.Msg) { m.Question = nil })
	upper   = checktest.Change(func(m *dns.Msg) { m.Question[0].Name = strings.ToUpper(m.Question[0].Name) })
)

// tooMuch is a whole and valid answer larger than the check reads.
func tooMuch(w dns.ResponseWriter, q *dns.Msg) {
	checktest.Change(func(m *dns.Msg) {
		for range 40 {
			m.Answer = append(m.Answer, &dns.TXT{Txt: []string{strings.Repeat("x", 200)},
				Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeTXT, Class: dns.ClassINET}})
		}
	})(w, q)
}

func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		udp, tcp dns.HandlerFunc
		reason   checks.Reason
		words    []string
	}{
		"noerror":              {udp: ok},
		"servfail":             {udp: checktest.Answer(dns.RcodeServerFailure)},
		"refused":              {udp: checktest.Answer(dns.RcodeRefused)},
		"id, then right":       {udp: checktest.Each(wrongID, wrongID, ok)},
		"question, then ok":    {udp: checktest.Each(wrongQ, ok)},
		"garbage, then ok":     {udp: checktest.Each(garbage, half, noQR, notify, ok)},
		"elsewhere, then ok":   {udp: checktest.Each(checktest.Elsewhere(), ok)},
		"bare formerr":         {udp: bareErr},
		"case of the name":     {udp: upper},
		"trailing bytes":       {udp: checktest.Bytes(func(b []byte) []byte { return append(b, 0, 0) })},
		"only another id":      {wrongID, nil, checks.ReasonTimeout, []string{"timeout after 2s (sent from 127.0.0.1, 1 reply dropped: 1 with another id)"}},
		"only ids":             {checktest.Each(wrongID, wrongID), nil, checks.ReasonTimeout, []string{"2 replies dropped: 2 with another id)"}},
		"only other question":  {wrongQ, nil, checks.ReasonTimeout, []string{"1 reply dropped: 1 to another question)"}},
		"only garbage":         {checktest.Each(garbage, half, noQR, notify), nil, checks.ReasonTimeout, []string{"4 replies dropped: 4 malformed)"}},
		"noerror, no question": {bareOK, nil, checks.ReasonTimeout, []string{"to another question"}},
		"only elsewhere":       {checktest.Elsewhere(), nil, checks.ReasonTimeout, []string{"(sent from 127.0.0.1, 0 of 1 replies)"}},
		"silent":               {checktest.Silent(), nil, checks.ReasonTimeout, []string{"timeout after 2s (sent from 127.0.0.1, 0 of 1 replies)"}},
		"port closed":          {nil, ok, checks.ReasonRefused, []string{"sent from 127.0.0.1"}},
		"truncated":            {udp: checktest.Truncated(), tcp: ok},
		"truncated, cut":       {udp: checktest.Bytes(func(b []byte) []byte { b[2] |= 2; return b[:len(b)-20] }), tcp: ok},
		"larger than read":     {udp: tooMuch, tcp: tooMuch},
		"tcp refused":          {checktest.Truncated(), nil, checks.ReasonRefused, []string{"refused: over tcp, as the answer over udp is truncated: connect: connection refused"}},
		"tcp truncated":        {checktest.Truncated(), checktest.Truncated(), checks.ReasonProtocol, []string{"over tcp, as the answer over udp is truncated: the answer over tcp is truncated"}},
		"tcp silent":           {checktest.Truncated(), checktest.Silent(), checks.ReasonTimeout, []string{"timeout: over tcp, as the answer over udp is truncated: no answer within 2s (sent from 127.0.0.1, 0 of 1 replies)"}},
		"tcp closes":           {checktest.Truncated(), checktest.Close(), checks.ReasonProtocol, []string{"over tcp, as the answer over udp is truncated: the connection was closed"}},
		"tcp other id":         {checktest.Truncated(), wrongID, checks.ReasonProtocol, []string{"over tcp, as the answer over udp is truncated: what came is no reply to the question: another id (sent"}},
		"large, tcp refused":   {tooMuch, nil, checks.ReasonRefused, []string{"over tcp, as the answer over udp was larger than 4096 bytes: connect: connection refused"}},
		"tcp servfail":         {udp: checktest.Truncated(), tcp: checktest.Answer(dns.RcodeServerFailure)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := checktest.DNS(t, "127.0.0.1", c.udp, c.tcp)
			d := 5 * time.Second
			if c.reason == checks.ReasonTimeout {
				d = 2 * time.Second // the text rounds it, and a busy machine loses some
			}
			start := time.Now()
			want(t, probeFor(t, Spec{Server: at.String()}, d), c.reason, c.words...)
			if took := time.Since(start); took > d+time.Minute {
				t.Errorf("took %s", took)
			}
		})
	}
}

func TestOverTCP(t *testing.T) {
	for name, c := range map[string]struct {
		tcp    dns.HandlerFunc
		reason checks.Reason
		words  []string
	}{
		"noerror":        {tcp: ok},
		"large":          {tcp: tooMuch},
		"right, then id": {tcp: checktest.Each(ok, wrongID, garbage)},
		"id, then right": {checktest.Each(wrongID, ok), checks.ReasonProtocol, []string{"what came is no reply to the question: another id (sent"}},
		"question, then": {checktest.Each(wrongQ, ok), checks.ReasonProtocol, []string{"what came is no reply to the question: another question (sent"}},
		"no question":    {bareOK, checks.ReasonProtocol, []string{"what came is no reply to the question: another question (sent"}},
		"bare formerr":   {tcp: bareErr},
		"garbage":        {garbage, checks.ReasonProtocol, []string{"what came is no reply to the question: a message of 7 bytes, too few for a header (sent"}},
		"empty":          {checktest.Bytes(func([]byte) []byte { return nil }), checks.ReasonProtocol, []string{": a message of 0 bytes, too few for a header (sent"}},
		"half":           {half, checks.ReasonProtocol, []string{"what came is no reply to the question: dns: "}},
		"echo":           {noQR, checks.ReasonProtocol, []string{"what came is no reply to the question: not marked as a reply (sent"}},
		"notify":         {notify, checks.ReasonProtocol, []string{"what came is no reply to the question: a reply to opcode 4 (sent"}},
		"truncated":      {checktest.Truncated(), checks.ReasonProtocol, []string{"over tcp is truncated"}},
		"closed":         {nil, checks.ReasonRefused, nil},
		"closes":         {checktest.Close(), checks.ReasonProtocol, []string{"closed before an answer"}},
		"silent":         {checktest.Silent(), checks.ReasonTimeout, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := checktest.DNS(t, "127.0.0.1", nil, c.tcp) // no udp: nothing falls back to it
			d := 5 * time.Second
			if c.reason == checks.ReasonTimeout {
				d = 2 * time.Second
			}
			err := probeFor(t, Spec{Server: at.String(), Proto: "tcp"}, d)
			want(t, err, c.reason, c.words...)
			if err != nil && strings.Contains(err.Error(), "fallback") {
				t.Errorf("no fallback was made: %v", err)
			}
		})
	}
}

func TestAccept(t *testing.T) {
	list := []any{"NOERROR", "nxdomain"}
	for rcode, reason := range map[int]checks.Reason{
		dns.RcodeSuccess: "", dns.RcodeNameError: "",
		dns.RcodeServerFailure: checks.ReasonStatus, dns.RcodeRefused: checks.ReasonStatus, dns.RcodeFormatError: checks.ReasonStatus, 11: checks.ReasonStatus,
	} {
		at := checktest.DNS(t, "127.0.0.1", checktest.Answer(rcode), nil)
		err := probe(t, Spec{Server: at.String(), Accept: accept(t, list)})
		if reason == "" {
			want(t, err, "")
		} else {
			want(t, err, reason, "rcode "+rcodeName(rcode), `["NOERROR", "NXDOMAIN"]`)
		}
		want(t, probe(t, Spec{Server: at.String(), Accept: accept(t, "any")}), "")
	}
}

func TestIPv6(t *testing.T) {
	at := checktest.DNS(t, "::1", checktest.Truncated(), ok)
	want(t, probe(t, Spec{Server: at.String(), Origin: checks.Origin{Source: "::1"}}), "")
}

// What is asked is what was configured, from a new port and with a new id each time.
func TestQuestion(t *testing.T) {
	var mu sync.Mutex
	var got []*dns.Msg
	var from []string
	at := checktest.DNS(t, "127.0.0.1", func(w dns.ResponseWriter, q *dns.Msg) {
		mu.Lock()
		got, from = append(got, q), append(from, w.RemoteAddr().String())
		mu.Unlock()
		ok(w, q)
	}, nil)
	yes := true
	want(t, probe(t, Spec{Server: at.String()}), "")
	want(t, probe(t, Spec{Server: at.String(), Name: "id.server", Qtype: "txt", Class: "ch", RecursionDesired: &yes, Origin: checks.Origin{Source: "127.0.0.9"}}), "")
	mu.Lock()
	defer mu.Unlock()
	if q := got[0]; q.Question[0] != (dns.Question{Name: ".", Qtype: dns.TypeNS, Qclass: dns.ClassINET}) || q.RecursionDesired {
		t.Errorf("by default: %s", q)
	}
	if opt := got[0].IsEdns0(); opt == nil || opt.UDPSize() != 1232 {
		t.Errorf("EDNS: %v", opt)
	}
	if q := got[1]; q.Question[0] != (dns.Question{Name: "id.server.", Qtype: dns.TypeTXT, Qclass: dns.ClassCHAOS}) || !q.RecursionDesired {
		t.Errorf("as configured: %s", q)
	}
	if !strings.HasPrefix(from[1], "127.0.0.9:") || from[0] == from[1] {
		t.Errorf("asked from %q", from)
	}
	if got[0].Id == got[1].Id {
		t.Errorf("the same id twice: %d (once in 65536 runs by chance)", got[0].Id)
	}
}

// DNSSEC and the NSID are asked for where they are wanted, and only there; the question that is repeated over tcp has an
// id of its own.
func TestOptions(t *testing.T) {
	var mu sync.Mutex
	var got []*dns.Msg
	keep := func(h dns.HandlerFunc) dns.HandlerFunc {
		return func(w dns.ResponseWriter, q *dns.Msg) {
			mu.Lock()
			got = append(got, q)
			mu.Unlock()
			h(w, q)
		}
	}
	at := checktest.DNS(t, "127.0.0.1", keep(checktest.Truncated()), keep(ok)).String()
	_ = probe(t, Spec{Server: at, Flags: []string{"AD"}, NSID: "a"}) // which the answer does not have
	want(t, probe(t, Spec{Server: at}), "")
	mu.Lock()
	defer mu.Unlock()
	for i, q := range got {
		opt, asked := q.IsEdns0(), i < 2
		if q.AuthenticatedData != asked || opt.Do() != asked || (len(opt.Option) == 1) != asked {
			t.Errorf("question %d: %s", i, q)
		}
		if asked && opt.Option[0].Option() != dns.EDNS0NSID {
			t.Errorf("question %d: option %v", i, opt.Option)
		}
	}
	if len(got) != 4 || got[0].Id == got[1].Id {
		t.Errorf("%d questions, the ids %d and %d (the same once in 65536 runs by chance)", len(got), got[0].Id, got[1].Id)
	}
}

func TestSourceMissing(t *testing.T) {
	at := checktest.DNS(t, "127.0.0.1", ok, ok)
	for _, proto := range []string{"udp", "tcp"} {
		want(t, probe(t, Spec{Server: at.String(), Proto: proto, Origin: checks.Origin{Source: "192.0.2.77"}}),
			checks.ReasonUnreachable, "the source address 192.0.2.77 is not on this node")
	}
}

// A check that is broken off says so soon, and not that the server failed.
func TestBrokenOff(t *testing.T) {
	asked := make(chan struct{}, 1)
	at := checktest.DNS(t, "127.0.0.1", func(dns.ResponseWriter, *dns.Msg) { asked <- struct{}{} }, nil)
	s := Spec{Server: at.String()}
	if ps := s.Validate(); ps != nil {
		t.Fatal(ps)
	}
	c, err := s.New()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Check(ctx) }()
	<-asked
	cancel()
	select {
	case err := <-ended:
		want(t, err, checks.ReasonUnknown)
	case <-time.After(time.Minute):
		t.Fatal("goes on after its context ended")
	}
}

// Every socket is closed, whatever the answer.
func TestNoDescriptorIsLeft(t *testing.T) {
	at := checktest.DNS(t, "127.0.0.1", checktest.Truncated(), nil)
	closed := checktest.DNS(t, "127.0.0.1", nil, ok)
	before := open(t)
	for range 200 {
		for _, s := range []Spec{{Server: at.String()}, {Server: closed.String()}, {Server: closed.String(), Proto: "tcp"}} {
			_ = probe(t, s)
		}
	}
	if after := open(t); after > before+5 {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func TestTargets(t *testing.T) {
	s := Spec{Server: "[::ffff:10.53.53.53]"}
	if ps := s.Validate(); ps != nil {
		t.Fatal(ps)
	}
	if got := s.Targets(); len(got) != 1 || got[0] != netip.MustParseAddr("10.53.53.53") {
		t.Errorf("targets %v", got)
	}
	var _ checks.Targeter = &s
}

func BenchmarkCheck(b *testing.B) {
	at := checktest.DNS(b, "127.0.0.1", ok, ok)
	for _, proto := range []string{"udp", "tcp"} {
		b.Run(proto, func(b *testing.B) { bench(b, Spec{Server: at.String(), Proto: proto}) })
	}
}

// bench checks again and again, and wants each to be ok.
func bench(b *testing.B, s Spec) {
	b.Helper()
	if ps := s.Validate(); ps != nil {
		b.Fatal(ps)
	}
	c, err := s.New()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		ctx, cancel := context.WithTimeout(b.Context(), time.Second)
		if err := c.Check(ctx); err != nil {
			b.Fatal(err)
		}
		cancel()
	}
}
