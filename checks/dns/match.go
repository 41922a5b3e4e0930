package dns

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/miekg/dns"

	"vouch/checks"
	"vouch/checks/payload"
)

// headerSize is that of a message (RFC 1035, section 4.1.1).
const headerSize = 12

// A kind is what keeps a message from being the reply to the question.
type kind int

const (
	fits kind = iota
	malformed
	otherID
	otherQuestion
	kinds // how many there are
)

// String gives such as "another id", which is the same from round to round.
func (k kind) String() string {
	return [kinds]string{"the reply", "no DNS reply, or a malformed one", "another id", "another question"}[k]
}

// A misfit is a message that is not the reply to the question, unless its kind is fits.
type misfit struct {
	kind kind
	what string // in particular; with an id it is another each time
}

// understand makes a message of wire, and says whether it is the reply to query. Of what is not whole the end may be
// missing, as where the header says so.
func understand(query *dns.Msg, wire []byte, whole bool) (*dns.Msg, misfit) {
	if m := judgeHeader(query, wire); m.kind != fits {
		return nil, m
	}
	reply := new(dns.Msg)
	if err := reply.Unpack(wire); err != nil && whole && !reply.Truncated {
		return nil, misfit{malformed, err.Error()}
	}
	return reply, judgeQuestion(query, reply)
}

// judgeHeader looks at the header alone, which costs next to nothing.
func judgeHeader(query *dns.Msg, wire []byte) misfit {
	if len(wire) < headerSize {
		return misfit{malformed, fmt.Sprintf("%d bytes are too few for a header", len(wire))}
	}
	id, opcode := binary.BigEndian.Uint16(wire), int(wire[2]>>3&0xf)
	switch {
	case wire[2]&0x80 == 0:
		return misfit{malformed, "not marked as a reply"}
	case opcode != query.Opcode:
		return misfit{malformed, fmt.Sprintf("a reply to opcode %d", opcode)}
	case id != query.Id:
		return misfit{otherID, fmt.Sprintf("%d, asked with %d", id, query.Id)}
	}
	return misfit{}
}

// bare are the rcodes of servers that could not, or would not, look at the question; some do not
// repeat it then.
var bare = []int{dns.RcodeFormatError, dns.RcodeServerFailure, dns.RcodeNotImplemented, dns.RcodeRefused}

func judgeQuestion(query, reply *dns.Msg) misfit {
	if n := len(reply.Question); n != 1 {
		if n == 0 && slices.Contains(bare, reply.Rcode&0xf) {
			return misfit{}
		}
		return misfit{otherQuestion, fmt.Sprintf("%d questions, asked 1", n)}
	}
	q, r := query.Question[0], reply.Question[0]
	if strings.EqualFold(q.Name, r.Name) && q.Qtype == r.Qtype && q.Qclass == r.Qclass {
		return misfit{}
	}
	return misfit{otherQuestion, fmt.Sprintf("%s, asked %s", asked(r), asked(q))}
}

// asked tells a question, such as "example.net. IN NS".
func asked(q dns.Question) string {
	return fmt.Sprintf("%s %s %s", q.Name, dns.Class(q.Qclass), dns.Type(q.Qtype))
}

// dropped counts what came and was no reply to the question.
type dropped [kinds]int

// shownDrops is how many of them are shown one by one.
const shownDrops = 10

// note counts a message, and shows it unless there were many before.
func (d *dropped) note(ctx context.Context, m misfit, wire []byte) {
	d[m.kind]++
	if checks.Traced(ctx) && d.all() <= shownDrops {
		checks.Tracef(ctx, checks.Got, "%d bytes, dropped: %s: %s\n%s", len(wire), m.kind, m.what, payload.Excerpt(wire))
	}
}

// traceRest tells how many more there were than note showed.
func (d *dropped) traceRest(ctx context.Context) {
	if more := d.all() - shownDrops; more > 0 {
		checks.Tracef(ctx, checks.Got, "and %d more, dropped: in all %d with another id, %d to another question, %d malformed",
			more, d[otherID], d[otherQuestion], d[malformed])
	}
}

func (d *dropped) all() (n int) {
	for _, of := range d {
		n += of
	}
	return n
}

// String gives such as "2 replies dropped: 1 with another id, 1 to another question", or "0 of 1 replies".
func (d *dropped) String() string {
	all := d.all()
	if all == 0 {
		return noReply
	}
	var parts []string
	for _, c := range []struct {
		n    int
		what string
	}{{d[otherID], "with another id"}, {d[otherQuestion], "to another question"}, {d[malformed], "malformed"}} {
		if c.n > 0 {
			parts = append(parts, some(c.n)+" "+c.what)
		}
	}
	replies := " replies dropped: "
	if all == 1 {
		replies = " reply dropped: "
	}
	return some(all) + replies + strings.Join(parts, ", ")
}

// noReply counts what came where nothing did.
const noReply = "0 of 1 replies"

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
