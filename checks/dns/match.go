package dns

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/miekg/dns"
)

// dropped counts what came and was no reply to the question.
type dropped struct{ garbage, id, question int }

// count says why reply, which unpacked with err, is not the reply to query, and counts it; it gives ""
// if it is.
func (d *dropped) count(query, reply *dns.Msg, err error) (why string) {
	switch {
	case err != nil && !reply.Truncated, !reply.Response, reply.Opcode != query.Opcode:
		d.garbage++
		return "no DNS reply, or a malformed one"
	case reply.Id != query.Id:
		d.id++
		return "another id"
	case !sameQuestion(query, reply):
		d.question++
		return "another question"
	}
	return ""
}

// bare are the rcodes of servers that could not, or would not, look at the question; some do not
// repeat it then.
var bare = []int{dns.RcodeFormatError, dns.RcodeServerFailure, dns.RcodeNotImplemented, dns.RcodeRefused}

func sameQuestion(query, reply *dns.Msg) bool {
	if len(reply.Question) == 0 {
		return slices.Contains(bare, reply.Rcode&0xf)
	}
	q, r := query.Question[0], reply.Question[0]
	return len(reply.Question) == 1 && strings.EqualFold(q.Name, r.Name) && q.Qtype == r.Qtype && q.Qclass == r.Qclass
}

// String gives such as "2 replies dropped: 1 with another id, 1 to another question", or "0 of 1 replies".
func (d dropped) String() string {
	if d == (dropped{}) {
		return "0 of 1 replies"
	}
	var parts []string
	for _, c := range []struct {
		n    int
		what string
	}{{d.id, "with another id"}, {d.question, "to another question"}, {d.garbage, "malformed"}} {
		if c.n > 0 {
			parts = append(parts, some(c.n)+" "+c.what)
		}
	}
	all := d.id + d.question + d.garbage
	replies := " replies dropped: "
	if all == 1 {
		replies = " reply dropped: "
	}
	return some(all) + replies + strings.Join(parts, ", ")
}

// after gives what String does with sep before it, or "" if nothing was dropped.
func (d dropped) after(sep string) string {
	if d == (dropped{}) {
		return ""
	}
	return sep + d.String()
}

// some tells a number; of a flood none, as it is another each time.
func some(n int) string {
	if n >= 10 {
		return "10 or more"
	}
	return strconv.Itoa(n)
}

// short cuts a text of the server's.
func short(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// several joins texts, the first few of them.
func several(list []string) string {
	const most = 5
	rest := ""
	if n := len(list) - most; n > 0 {
		list, rest = list[:most], fmt.Sprintf(" and %d more", n)
	}
	texts := make([]string, len(list))
	for i, s := range list {
		texts[i] = short(s)
	}
	return strings.Join(texts, ", ") + rest
}
