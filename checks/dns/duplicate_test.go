package dns

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"vouch/checks"
	"vouch/checks/checktest"
)

// Replies that come twice are taken once, and what is left of one round is no reply of the next, though it comes to
// the same place: from a server that says SERVFAIL to all that it was asked before, only what it was asked now counts.
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
	at := checktest.DNS(t, "127.0.0.1", echoes, echoes)
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

// An answer that is larger than what was asked for, and cannot be had over tcp, is told of.
func TestLargerThanAsked(t *testing.T) {
	at := checktest.DNS(t, "127.0.0.1", tooMuch, nil)
	s := Spec{Server: at.String()}
	if ps := s.Validate(); ps != nil {
		t.Fatal(ps)
	}
	c, err := s.New()
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var shown strings.Builder
	err = c.Check(checks.WithTrace(t.Context(), func(d checks.Direction, text string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(&shown, "%c %s\n", d, text)
	}))
	want(t, err, checks.ReasonRefused, "over tcp, as the answer did not fit into udp: connect: connection refused")
	const cut = "* what comes next is cut: it is larger than 4096 bytes, and no more than 1232 were asked for\n"
	if got := shown.String(); !strings.Contains(got, cut) {
		t.Errorf("got %.500s\nwant %s", got, cut)
	}
}
