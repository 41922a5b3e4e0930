package dns

import (
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// dropped counts what came and was no reply to the question.
type dropped struct{ garbage, id, question int }

// count says whether reply, which unpacked with err, is the reply to query, and counts it if not.
func (d *dropped) count(query, reply *dns.Msg, err error) bool {
	switch {
	case err != nil && !reply.Truncated, !reply.Response, reply.Opcode != query.Opcode:
		d.garbage++
	case reply.Id != query.Id:
		d.id++
	case !sameQuestion(query, reply):
		d.question++
	default:
		return true
	}
	return false
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

// String gives such as "; dropped: 2 replies with another id", or nothing.
func (d dropped) String() string {
	var parts []string
	for _, c := range []struct {
		n         int
		one, many string
	}{
		{d.id, "1 reply with another id was dropped", "%d replies with another id were dropped"},
		{d.question, "1 reply to another question was dropped", "%d replies to another question were dropped"},
		{d.garbage, "1 message that is no DNS reply was dropped", "%d messages that are no DNS reply were dropped"},
	} {
		switch {
		case c.n == 1:
			parts = append(parts, c.one)
		case c.n > 1:
			parts = append(parts, fmt.Sprintf(c.many, c.n))
		}
	}
	if parts == nil {
		return ""
	}
	return "; " + strings.Join(parts, ", ")
}
