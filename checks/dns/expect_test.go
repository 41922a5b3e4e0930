package dns

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"vouch/checks"
	"vouch/checks/checktest"
)

// zone answers with an rcode and with records, as they stand in a zone file; f may change the answer.
func zone(t testing.TB, rcode int, f func(q, m *dns.Msg), records ...string) dns.HandlerFunc {
	t.Helper()
	rrs := parsed(t, records...)
	return func(w dns.ResponseWriter, q *dns.Msg) {
		checktest.Change(func(m *dns.Msg) {
			m.Rcode, m.Answer = rcode, rrs
			if f != nil {
				f(q, m)
			}
		})(w, q)
	}
}

func parsed(t testing.TB, records ...string) (rrs []dns.RR) {
	t.Helper()
	for _, text := range records {
		rr, err := dns.NewRR(text)
		if err != nil {
			t.Fatal(err)
		}
		rrs = append(rrs, rr)
	}
	return rrs
}

func set(flag string) func(q, m *dns.Msg) {
	return func(_, m *dns.Msg) {
		m.Authoritative, m.AuthenticatedData, m.RecursionAvailable = flag == "AA", flag == "AD", flag == "RA"
	}
}

// option answers with an option of EDNS.
func option(o dns.EDNS0) func(q, m *dns.Msg) {
	return func(_, m *dns.Msg) {
		m.SetEdns0(1232, false)
		m.IsEdns0().Option = []dns.EDNS0{o}
	}
}

const (
	address = "www.example.net. 300 IN A 192.0.2.1"
	another = "www.example.net. 300 IN A 192.0.2.2"
	alias   = "www.example.net. 300 IN CNAME web.example.net."
	target  = "web.example.net. 300 IN A 192.0.2.1"
)

// What counts as an answer, cell by cell: what the server says against what is wanted.
func TestExpectation(t *testing.T) {
	const plain, list = ``, `accept = ["NOERROR"]`
	no := func(rcode int) dns.HandlerFunc { return zone(t, rcode, nil) }
	for name, c := range map[string]struct {
		server dns.HandlerFunc
		config string
		reason checks.Reason
		words  string
	}{
		"answer, any":          {zone(t, 0, nil, address), plain, "", ""},
		"answer, list":         {zone(t, 0, nil, address), list, "", ""},
		"empty, any":           {no(0), plain, "", ""},
		"empty, list":          {no(0), list, checks.ReasonMismatch, "NOERROR with 0 of at least 1 records of type A"},
		"empty, list, 0":       {no(0), list + "\nmin_answers = 0", "", ""},
		"empty, two rcodes":    {no(0), `accept = ["NOERROR", "NXDOMAIN"]`, "", ""},
		"alias, list":          {zone(t, 0, nil, alias, target), list, "", ""},
		"alias alone, list":    {zone(t, 0, nil, alias), list, checks.ReasonMismatch, "0 of at least 1 records of type A, an alias that leads to web.example.net."},
		"alias alone, any":     {zone(t, 0, nil, alias), plain, "", ""},
		"alias loop":           {zone(t, 0, nil, alias, "web.example.net. 1 IN CNAME www.example.net."), list, checks.ReasonMismatch, "0 of at least 1"},
		"another name":         {zone(t, 0, nil, target), list, checks.ReasonMismatch, "0 of at least 1"},
		"another type":         {zone(t, 0, nil, "www.example.net. 1 IN AAAA 2001:db8::1"), list, checks.ReasonMismatch, "0 of at least 1"},
		"another class":        {zone(t, 0, nil, "www.example.net. 1 CH A 192.0.2.1"), list, checks.ReasonMismatch, "0 of at least 1"},
		"upper case":           {zone(t, 0, nil, "WWW.EXAMPLE.NET. 1 IN A 192.0.2.1"), list, "", ""},
		"nxdomain, any":        {no(dns.RcodeNameError), plain, "", ""},
		"nxdomain, list":       {no(dns.RcodeNameError), list, checks.ReasonStatus, "rcode NXDOMAIN is not among those accepted"},
		"servfail, any":        {no(dns.RcodeServerFailure), plain, "", ""},
		"servfail, list":       {no(dns.RcodeServerFailure), list, checks.ReasonStatus, "rcode SERVFAIL"},
		"refused, list":        {no(dns.RcodeRefused), list, checks.ReasonStatus, "rcode REFUSED"},
		"formerr, list":        {no(dns.RcodeFormatError), list, checks.ReasonStatus, "rcode FORMERR"},
		"extended error":       {zone(t, 2, option(&dns.EDNS0_EDE{InfoCode: 22, ExtraText: "at 3:04"})), list, checks.ReasonStatus, "rcode SERVFAIL (No Reachable Authority) is not"},
		"extended, unknown":    {zone(t, 2, option(&dns.EDNS0_EDE{InfoCode: 4999})), list, checks.ReasonStatus, "rcode SERVFAIL (extended error 4999) is not"},
		"two wanted":           {zone(t, 0, nil, address, another), "min_answers = 2", "", ""},
		"two wanted, one":      {zone(t, 0, nil, address), "min_answers = 2", checks.ReasonMismatch, "1 of at least 2"},
		"right data":           {zone(t, 0, nil, another, address), `answer = ["192.0.2.1"]`, "", ""},
		"right data, both":     {zone(t, 0, nil, another, address), `answer = ["192.0.2.1", "192.0.2.2"]`, "", ""},
		"wrong data":           {zone(t, 0, nil, another), `answer = ["192.0.2.1"]`, checks.ReasonMismatch, "no record of type A is 192.0.2.1; there is 192.0.2.2"},
		"one of two missing":   {zone(t, 0, nil, address), `answer = ["192.0.2.1", "192.0.2.2"]`, checks.ReasonMismatch, "no record of type A is 192.0.2.2"},
		"data, servfail":       {no(2), `answer = ["192.0.2.1"]`, checks.ReasonStatus, `rcode SERVFAIL is not among those accepted, ["NOERROR"]`},
		"data by alias":        {zone(t, 0, nil, alias, target), `answer = ["192.0.2.1"]`, "", ""},
		"matches":              {zone(t, 0, nil, another, address), `match = '^192\.0\.2\.1$'`, "", ""},
		"matches not":          {zone(t, 0, nil, another), `match = '^192\.0\.2\.1$'`, checks.ReasonMismatch, `no record of type A matches ^192\.0\.2\.1$; there is 192.0.2.2`},
		"ttl":                  {zone(t, 0, nil, address), `max_ttl = "300s"`, "", ""},
		"ttl too long":         {zone(t, 0, nil, address), `max_ttl = "30s"`, checks.ReasonMismatch, "the TTL of a record of type A is above max_ttl, 30s"},
		"aa":                   {zone(t, 0, set("AA"), address), `flags = ["aa"]`, "", ""},
		"aa missing":           {zone(t, 0, set("RA"), address), `flags = ["AA"]`, checks.ReasonMismatch, "the flag AA is not set in the answer, NOERROR"},
		"ad":                   {zone(t, 0, set("AD"), address), `flags = ["AD"]`, "", ""},
		"ad missing":           {zone(t, 0, set("RA"), address), `flags = ["AD"]`, checks.ReasonMismatch, "the flag AD is not set"},
		"ra":                   {zone(t, 0, set("RA"), address), `flags = ["RA"]`, "", ""},
		"ra missing":           {zone(t, dns.RcodeRefused, set("")), `flags = ["RA"]`, checks.ReasonMismatch, "the flag RA is not set in the answer, REFUSED"},
		"aa and ra":            {zone(t, 0, set("RA"), address), `flags = ["AA", "RA"]`, checks.ReasonMismatch, "the flag AA"},
		"nsid":                 {zone(t, 0, option(&dns.EDNS0_NSID{Code: dns.EDNS0NSID, Nsid: "616d7331"})), `nsid = "ams1"`, "", ""},
		"nsid, servfail":       {zone(t, 2, option(&dns.EDNS0_NSID{Code: dns.EDNS0NSID, Nsid: "616d7331"})), `nsid = "ams1"`, "", ""},
		"nsid of another":      {zone(t, 0, option(&dns.EDNS0_NSID{Code: dns.EDNS0NSID, Nsid: "616d7332"})), `nsid = "ams1"`, checks.ReasonMismatch, `answered by "ams2", want NSID "ams1"`},
		"nsid longer":          {zone(t, 0, option(&dns.EDNS0_NSID{Code: dns.EDNS0NSID, Nsid: "616d733130"})), `nsid = "ams1"`, checks.ReasonMismatch, `answered by "ams10"`},
		"nsid in hexadecimal":  {zone(t, 0, option(&dns.EDNS0_NSID{Code: dns.EDNS0NSID, Nsid: "00ff"})), `nsid = "0x00FF"`, "", ""},
		"nsid, no text":        {zone(t, 0, option(&dns.EDNS0_NSID{Code: dns.EDNS0NSID, Nsid: "00fe"})), `nsid = "0x00FF"`, checks.ReasonMismatch, `answered by 0x00fe, want NSID 0x00ff`},
		"nsid missing":         {zone(t, 0, nil, address), `nsid = "ams1"`, checks.ReasonMismatch, `the answer has no NSID, want NSID "ams1"`},
		"nsid goes before all": {zone(t, 2, nil), "nsid = \"ams1\"\n" + list, checks.ReasonMismatch, "no NSID"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := checktest.DNS(t, "127.0.0.1", c.server, nil)
			s := decode(t, "server = \""+at.String()+"\"\nname = \"www.example.net\"\nqtype = \"A\"\n"+c.config)
			want(t, probe(t, *s), c.reason, c.words)
		})
	}
}

// The data is compared as the type has it, not as text.
func TestValues(t *testing.T) {
	for _, c := range []struct {
		record, qtype, class, value string
		is                          bool
	}{
		{"x. 1 IN AAAA 2001:db8::1", "AAAA", "", "2001:DB8:0::1", true},
		{"x. 1 IN AAAA 2001:db8::1", "AAAA", "", "2001:db8::2", false},
		{"x. 1 IN MX 10 Mail.Example.NET.", "MX", "", "10 mail.example.net", true},
		{"x. 1 IN MX 10 mail.example.net.", "MX", "", "20 mail.example.net.", false},
		{"x. 1 IN NS ns1.example.net.", "NS", "", "ns1.example.net", true},
		{`x. 1 IN TXT "v=spf1 -all"`, "TXT", "", "v=spf1 -all", true},
		{`x. 1 IN TXT "v=spf1 " "-all"`, "TXT", "", "v=spf1 -all", true},
		{`x. 1 IN TXT "say \"a\\b\" \200"`, "TXT", "", "say \"a\\b\" \xc8", true},
		{`x. 1 IN TXT "ams10"`, "TXT", "", "ams1", false},
		{`x. 1 CH TXT "ams1"`, "TXT", "CH", "ams1", true},
		{"x. 1 IN CAA 0 issue \"ca.example\"", "CAA", "", `0 issue "ca.example"`, true},
		{"x. 1 IN CNAME y.", "CNAME", "", "y", true},
	} {
		s := Spec{Server: "127.0.0.1", Name: "x", Qtype: c.qtype, Class: c.class, Answer: []string{c.value}}
		if ps := s.Validate(); ps != nil {
			t.Errorf("%s: %+v", c.value, ps)
			continue
		}
		e, err := s.expects()
		if err != nil {
			t.Fatal(err)
		}
		query := new(dns.Msg)
		query.SetQuestion("x.", dns.StringToType[c.qtype])
		query.Question[0].Qclass = dns.StringToClass[s.Class]
		f := e.judge(t.Context(), query, &dns.Msg{Answer: parsed(t, c.record)})
		if (f == nil) != c.is {
			t.Errorf("%s is %s: %v", c.record, c.value, f)
		}
	}
}

// An answer with many records is told in the same words each time, and in few.
func TestSummaryIsStableAndShort(t *testing.T) {
	var rrs []dns.RR
	for _, last := range []string{"9", "3", "7", "1", "5", "2", "8"} {
		rrs = append(rrs, parsed(t, "x. 1 IN A 192.0.2."+last)...)
	}
	first := summary(rrs)
	if first != "192.0.2.1, 192.0.2.2, 192.0.2.3, 192.0.2.5, 192.0.2.7 and 2 more" {
		t.Errorf("got %q", first)
	}
	slices.Reverse(rrs)
	if again := summary(rrs); again != first {
		t.Errorf("once %q, once %q", first, again)
	}
	long := &dns.TXT{Txt: []string{strings.Repeat("x", 255), strings.Repeat("y", 255)}}
	if got := summary([]dns.RR{long}); len(got) > 100 {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

// Whatever is in an answer, it is judged without a panic.
func FuzzJudge(f *testing.F) {
	m := &dns.Msg{Question: []dns.Question{{Name: "x.", Qtype: dns.TypeSOA, Qclass: dns.ClassINET}},
		Answer: parsed(f, "x. 1 IN CNAME y.", "y. 1 IN SOA a. b. 2026010101 1 1 1 1")}
	m.SetEdns0(1232, true)
	m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_NSID{Code: dns.EDNS0NSID, Nsid: "00ff"}, &dns.EDNS0_EDE{InfoCode: 3}}
	wire, err := m.Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(wire)
	s := Spec{Server: "127.0.0.1", Name: "x", Qtype: "SOA", Match: "2026", Answer: []string{"a. b. 2026010101 1 1 1 1"}, MaxTTL: time.Second, NSID: "0x00ff", Flags: []string{"AD"}}
	if ps := s.Validate(); ps != nil {
		f.Fatal(ps)
	}
	e, err := s.expects()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		reply := new(dns.Msg)
		if reply.Unpack(wire) != nil {
			return
		}
		query := &dns.Msg{Question: m.Question}
		_ = e.judge(t.Context(), query, reply)
		e.nsid, reply.AuthenticatedData, reply.Rcode = nil, true, 0
		if err := e.judge(t.Context(), query, reply); err != nil && len(err.Error()) > 2000 {
			t.Errorf("%d bytes of detail", len(err.Error()))
		}
		e.nsid = []byte{0, 255}
		serial(query, reply)
	})
}

// A name may be written in any way that stands for it: the answer's is in the library's own.
func TestNamesAreCompared(t *testing.T) {
	for name, shown := range map[string]string{
		"a@b.example": `a\@b.example.`, `ex\097mple`: "example.", `a b.example`: `a\ b.example.`, `q"q.example`: `q\"q.example.`,
		`a\.b.example`: `a\.b.example.`, `\200.example`: `\200.example.`, `semi;colon.example`: `semi\;colon.example.`, "MiXed.Example": "MiXed.Example.",
		`(x).example`: `\(x\).example.`, `a\b.example`: "ab.example.",
	} {
		s := Spec{Server: checktest.DNS(t, "127.0.0.1", ok, ok).String(), Name: name, Qtype: "TXT", Accept: accept(t, []any{"NOERROR"})}
		none := 0
		s.MinAnswers = &none
		for _, s.Proto = range []string{"udp", "tcp"} {
			want(t, probe(t, s), "")
		}
		if ps := s.Validate(); ps != nil || s.Name != shown {
			t.Errorf("%s is shown as %s, want %s: %v", name, s.Name, shown, ps)
		}
		s.Qtype, s.Answer, s.MinAnswers = "NS", []string{strings.NewReplacer(" ", `\ `, `"`, `\"`, ";", `\;`, "(", `\(`, ")", `\)`).Replace(name) + "."}, nil
		s.Proto = "udp"
		s.Server = checktest.DNS(t, "127.0.0.1", points(name), nil).String()
		want(t, probe(t, s), "")
	}
}

// points answers with an NS record that leads to a name.
func points(name string) dns.HandlerFunc {
	return func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		m.Answer = []dns.RR{&dns.NS{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeNS, Class: dns.ClassINET}, Ns: name + "."}}
		_ = w.WriteMsg(m) // the asker may have gone
	}
}

// An expression that takes long on what a server sends ends with the check.
func TestSlowExpression(t *testing.T) {
	long := make([]string, 200)
	for i := range long {
		long[i] = strings.Repeat("abcz", 60)
	}
	w, err := (&Spec{Qtype: "TXT", Accept: accept(t, []any{"NOERROR"}), Match: `(?:(?:a?){100}(?:b?){100}(?:c?){100}){3}[x-z]{900}$`}).expects()
	if err != nil {
		t.Fatal(err)
	}
	query := new(dns.Msg).SetQuestion("x.", dns.TypeTXT)
	reply := new(dns.Msg).SetReply(query)
	reply.Answer = []dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: "x.", Rrtype: dns.TypeTXT, Class: dns.ClassINET}, Txt: long}}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	want(t, w.judge(ctx, query, reply), checks.ReasonTimeout, "the regular expression takes too long on what came")
}
