package dns

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"vouch/checks"
	"vouch/checks/checktest"
)

// Replies that come twice are taken once, and what is left of one round is no reply of the next, though it comes to
// the same place: from a server that says SERVFAIL to all that it was asked before, only what it was asked now counts.
// Over tcp it says that where it was not asked, which is a fault of its own.
func TestDuplicates(t *testing.T) {
	var mu sync.Mutex
	var before []*dns.Msg // what was asked
	echoes := func(w dns.ResponseWriter, q *dns.Msg) {
		mu.Lock()
		defer mu.Unlock()
		for _, old := range before {
			m := new(dns.Msg).SetRcode(old, dns.RcodeServerFailure)
			_, _ = w.WriteMsg(m), w.WriteMsg(m) // the asker may have gone
		}
		before = append(before, q.Copy())
		checktest.Each(ok, ok)(w, q)
	}
	at := checktest.DNS(t, "127.0.0.1", echoes, checktest.Each(ok, echoes))
	for _, s := range []Spec{
		{Proto: "udp", Name: "example.net", RandomLabel: true, Qtype: "TXT"}, {Proto: "udp", Name: "example.net", Qtype: "TXT"},
		{Proto: "tcp", Name: "example.net", Qtype: "TXT"},
	} {
		s.Server, s.Accept = at.String(), accept(t, []any{"NOERROR"})
		for range 5 {
			want(t, probe(t, s), "")
		}
	}
}

// traced makes one round, and gives what whoever looks on sees.
func traced(t *testing.T, s Spec, d time.Duration) (string, error) {
	t.Helper()
	if ps := s.Validate(); ps != nil {
		t.Fatal(ps)
	}
	c, err := s.New()
	if err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	err = c.Check(checks.WithTrace(ctx, func(d checks.Direction, text string) { fmt.Fprintf(&shown, "%c %s\n", d, text) }))
	return shown.String(), err
}

// An answer that is larger than what was asked for, and cannot be had over tcp, is told of as it came.
func TestLargerThanAsked(t *testing.T) {
	got, err := traced(t, Spec{Server: checktest.DNS(t, "127.0.0.1", tooMuch, nil).String()}, 5*time.Second)
	want(t, err, checks.ReasonRefused, "over tcp, as the answer over udp was larger than 4096 bytes: connect: connection refused")
	for _, note := range []string{
		"< an answer of more than 4096 bytes, not marked as truncated, where at most 1232 were asked for\n",
		"* the answer over udp was larger than 4096 bytes: asking again over tcp\n",
	} {
		if !strings.Contains(got, note) {
			t.Errorf("got %.500s\nwant %s", got, note)
		}
	}
	if strings.Contains(got, "flags: qr") {
		t.Errorf("flags are shown of what was not read: %.500s", got)
	}
}

// Whoever looks on for why nothing comes is told what cannot be seen here.
func TestNotHeard(t *testing.T) {
	const note = " is not heard here: tcpdump shows it\n"
	got, err := traced(t, Spec{Server: checktest.DNS(t, "127.0.0.1", checktest.Elsewhere(), nil).String()}, time.Second)
	if want(t, err, checks.ReasonTimeout, "(sent from 127.0.0.1, 0 of 1 replies)"); !strings.Contains(got, note) {
		t.Errorf("got %s", got)
	}
	got, err = traced(t, Spec{Server: checktest.DNS(t, "127.0.0.1", nil, checktest.Silent()).String(), Proto: "tcp"}, time.Second)
	if want(t, err, checks.ReasonTimeout); strings.Contains(got, note) {
		t.Errorf("got %s", got)
	}
}
