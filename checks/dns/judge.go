package dns

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/miekg/dns"

	"vouch/checks"
	"vouch/checks/payload"
)

// An expectation is what an answer must be. It may be used concurrently.
type expectation struct {
	accept Accept
	flags  []string
	nsid   []byte // nil: any
	least  int    // number of records
	values []value
	match  *payload.Pattern // nil: any
	maxTTL time.Duration    // 0: any
}

// A value is the data of a record as it is wanted.
type value struct {
	text string
	rr   dns.RR // of the root; nil: the text is that of a TXT record
}

// expects gives what the answer must be.
func (s *Spec) expects() (w expectation, err error) {
	w = expectation{accept: s.Accept, flags: s.Flags, maxTTL: s.MaxTTL}
	if s.MinAnswers != nil {
		w.least = *s.MinAnswers
	}
	if s.NSID != "" {
		if w.nsid, err = octets(s.NSID); err != nil {
			return w, fmt.Errorf("nsid %q: %w", s.NSID, err)
		}
	}
	for _, text := range s.Answer {
		v, err := s.value(text)
		if err != nil {
			return w, fmt.Errorf("answer %q: %w", text, err)
		}
		w.values = append(w.values, v)
	}
	if s.Match != "" {
		w.match, err = payload.Compile(s.Match)
	}
	return w, err
}

var errNoData = errors.New("it is not the data of one record")

// value reads data as it stands in a zone file; of TXT it is the bare text.
func (s *Spec) value(text string) (value, error) {
	if s.Qtype == "TXT" {
		return value{text: text}, nil
	}
	if strings.TrimSpace(text) == "" || strings.ContainsFunc(text, unicode.IsControl) || s.Qtype == "ANY" {
		return value{}, errNoData
	}
	rr, err := dns.NewRR(". 0 " + s.Class + " " + s.Qtype + " " + text)
	if err == nil && (rr == nil || rr.Header().Rrtype != dns.StringToType[s.Qtype]) {
		err = errNoData
	}
	if err != nil {
		return value{}, err
	}
	rr, err = unpacked(rr)
	return value{text, rr}, err
}

// unpacked gives a record in the form that the DNS library gives those of an answer.
func unpacked(rr dns.RR) (dns.RR, error) {
	wire := make([]byte, dns.MaxMsgSize)
	n, err := dns.PackRR(rr, wire, 0, nil, false)
	if err != nil {
		return nil, err
	}
	rr, _, err = dns.UnpackRR(wire[:n], 0)
	return rr, err
}

// octets reads an NSID as it is written.
func octets(s string) ([]byte, error) {
	if digits, ok := strings.CutPrefix(s, "0x"); ok {
		return hex.DecodeString(digits)
	}
	return []byte(s), nil
}

// judge says what of the reply to query is not as it must be; nil if all is. The error is a *checks.Failure.
func (w *expectation) judge(ctx context.Context, query, reply *dns.Msg) error {
	if w.nsid != nil {
		if got, ok := nsid(reply); !ok || !slices.Equal(got, w.nsid) {
			return mismatch("%s, want NSID %s", said(got, ok), shown(w.nsid))
		}
	}
	if !w.accept.accepts(reply.Rcode) {
		return &checks.Failure{Reason: checks.ReasonStatus,
			Detail: fmt.Sprintf("rcode %s%s is not among those accepted, %s", rcodeName(reply.Rcode), extended(reply), w.accept)}
	}
	for _, f := range w.flags {
		if !has(reply, f) {
			return mismatch("the flag %s is not set in the answer, %s%s", f, rcodeName(reply.Rcode), extended(reply))
		}
	}
	if w.accept.records() {
		return w.judgeRecords(ctx, query, reply)
	}
	return nil
}

func (w *expectation) judgeRecords(ctx context.Context, query, reply *dns.Msg) error {
	rrs, end := records(query.Question[0], reply)
	kind := dns.TypeToString[query.Question[0].Qtype]
	if len(rrs) < w.least {
		alias := ""
		if end != query.Question[0].Name {
			alias = ", an alias that leads to " + short(end)
		}
		return mismatch("%s with %d of at least %d records of type %s%s%s", rcodeName(reply.Rcode), len(rrs), w.least, kind, alias, extended(reply))
	}
	for _, v := range w.values {
		if !slices.ContainsFunc(rrs, v.is) {
			return mismatch("no record of type %s is %s; there is %s", kind, short(v.text), summary(rrs))
		}
	}
	if err := w.judgeMatch(ctx, kind, rrs); err != nil {
		return err
	}
	for _, rr := range rrs {
		if ttl := time.Duration(rr.Header().Ttl) * time.Second; w.maxTTL > 0 && ttl > w.maxTTL {
			return mismatch("the TTL of a record of type %s is above max_ttl, %s: about %s", kind, w.maxTTL, coarse(ttl))
		}
	}
	return nil
}

// judgeMatch wants the data of one of the records to match.
func (w *expectation) judgeMatch(ctx context.Context, kind string, rrs []dns.RR) error {
	if w.match == nil {
		return nil
	}
	for _, rr := range rrs {
		if found, err := w.match.Match(ctx, []byte(data(rr))); found || err != nil {
			return err
		}
	}
	return mismatch("no record of type %s matches %s; there is %s", kind, short(w.match.String()), summary(rrs))
}

// coarse rounds a TTL, as that from a cache is another each second.
func coarse(ttl time.Duration) time.Duration {
	unit := time.Second
	for _, u := range []time.Duration{10 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour} {
		if 4*u <= ttl {
			unit = u
		}
	}
	return ttl.Round(unit)
}

func mismatch(format string, args ...any) *checks.Failure {
	return &checks.Failure{Reason: checks.ReasonMismatch, Detail: fmt.Sprintf(format, args...)}
}

// records gives those of the answer section that answer the question, and the name that they are at: the
// question's, or where its aliases lead.
func records(q dns.Question, reply *dns.Msg) (rrs []dns.RR, at string) {
	at = q.Name
	if q.Qtype != dns.TypeCNAME && q.Qtype != dns.TypeANY {
		at = follow(q.Name, reply.Answer)
	}
	for _, rr := range reply.Answer {
		h := rr.Header()
		if strings.EqualFold(h.Name, at) && h.Class == q.Qclass && (h.Rrtype == q.Qtype || q.Qtype == dns.TypeANY) {
			rrs = append(rrs, rr)
		}
	}
	return rrs, at
}

// follow gives the name where a chain of aliases ends; a loop ends somewhere on it.
func follow(name string, rrs []dns.RR) string {
	for range 32 {
		i := slices.IndexFunc(rrs, func(rr dns.RR) bool {
			_, ok := rr.(*dns.CNAME)
			return ok && strings.EqualFold(rr.Header().Name, name)
		})
		if i < 0 {
			break
		}
		name = rrs[i].(*dns.CNAME).Target
	}
	return name
}

// is says whether a record has the data.
func (v value) is(rr dns.RR) bool {
	if v.rr == nil {
		return data(rr) == v.text
	}
	bare := dns.Copy(rr)
	bare.Header().Name = "."
	return dns.IsDuplicate(bare, v.rr)
}

// data gives the data of a record as it stands in a zone file; of TXT the bare text.
func data(rr dns.RR) string {
	if txt, ok := rr.(*dns.TXT); ok {
		return unescape(strings.Join(txt.Txt, ""))
	}
	return strings.TrimPrefix(rr.String(), rr.Header().String())
}

// unescape undoes the escapes \X and \DDD of RFC 1035, section 5.1, in which the DNS library keeps text.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '\\' && i+1 < len(s) {
			i++
			c = s[i]
			if n, err := strconv.ParseUint(s[i:min(i+3, len(s))], 10, 8); err == nil && i+3 <= len(s) {
				c, i = byte(n), i+2
			}
		}
		b.WriteByte(c)
	}
	return b.String()
}

// summary gives the data of records for people, in an order that is the same each time.
func summary(rrs []dns.RR) string {
	all := make([]string, len(rrs))
	for i, rr := range rrs {
		all[i] = data(rr)
	}
	slices.Sort(all)
	return several(all)
}

func has(reply *dns.Msg, flag string) bool {
	switch flag {
	case "AA":
		return reply.Authoritative
	case "AD":
		return reply.AuthenticatedData
	}
	return reply.RecursionAvailable
}

// nsid gives what the server says of itself, and whether it does.
func nsid(reply *dns.Msg) ([]byte, bool) {
	if opt := reply.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if n, ok := o.(*dns.EDNS0_NSID); ok {
				b, err := hex.DecodeString(n.Nsid)
				return b, err == nil
			}
		}
	}
	return nil, false
}

func said(nsid []byte, ok bool) string {
	if !ok {
		return "the answer has no NSID"
	}
	return "answered by " + shown(nsid)
}

// shown gives an NSID for people: its text, or in hexadecimal what is none.
func shown(nsid []byte) string {
	s := string(nsid)
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(short(s))
	}
	return "0x" + short(hex.EncodeToString(nsid))
}

// extended tells of the extended errors of an answer (RFC 8914), such as " (Stale Answer)"; their free text
// may be another each time.
func extended(reply *dns.Msg) string {
	var names []string
	if opt := reply.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if e, ok := o.(*dns.EDNS0_EDE); ok {
				name, known := dns.ExtendedErrorCodeToString[e.InfoCode]
				if !known {
					name = fmt.Sprintf("extended error %d", e.InfoCode)
				}
				names = append(names, name)
			}
		}
	}
	if names == nil {
		return ""
	}
	slices.Sort(names)
	return " (" + several(slices.Compact(names)) + ")"
}
