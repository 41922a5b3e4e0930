package dns

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/miekg/dns"

	"vouch/checks"
	"vouch/checks/payload"
	"vouch/checks/trust"
)

// lengthSize is that of the length before each message (RFC 1035, section 4.2.2).
const lengthSize = 2

// overStream asks over a connection.
func overStream(ctx context.Context, conn net.Conn, query *dns.Msg, wire, buf []byte, late string) (*dns.Msg, error) {
	framed := append(binary.BigEndian.AppendUint16(nil, uint16(len(wire))), wire...)
	var a arrived
	_, err := conn.Write(framed)
	if err == nil {
		a, err = first(conn, query, buf)
	}
	if err == nil && a.misfit.kind == fits {
		traceMessage(ctx, checks.Got, a.reply)
		return a.reply, nil
	}
	if checks.Traced(ctx) && len(a.bytes) > 0 {
		checks.Tracef(ctx, checks.Got, "%s\n%s", a.tell(query), payload.Dump(a.bytes))
	}
	switch {
	case err == nil:
		return nil, &checks.Failure{Reason: checks.ReasonProtocol, Detail: a.fault(query)}
	case closed(err):
		return nil, &checks.Failure{Reason: checks.ReasonProtocol, Detail: "the connection was closed before an answer" + a.half(query)}
	}
	f := trust.Failure(ctx, late, err)
	switch f.Reason {
	case checks.ReasonUnknown:
		return nil, f
	case checks.ReasonTimeout:
		f.Aside = noReply
	}
	f.Detail = strings.TrimPrefix(f.Detail+a.half(query), "; ")
	return nil, f
}

// closed says whether the other side has ended a connection.
func closed(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// arrived is what came over a connection.
type arrived struct {
	bytes  []byte   // with the length before the message, and maybe with what follows it
	reply  *dns.Msg // nil: it is not whole, or is none
	misfit misfit
}

// first reads until the reply is there, or what comes cannot become it. No other question was asked over this
// connection, so that no other message has a reason to come before the reply (RFC 7766, section 7): the first one
// decides, and no more than that is read.
func first(r io.Reader, query *dns.Msg, buf []byte) (a arrived, err error) {
	for {
		if a.reply, a.misfit = unframe(query, a.bytes); a.reply != nil || a.misfit.kind != fits {
			return a, nil
		}
		if need := lengthSize + size(a.bytes); need > len(buf) {
			buf = make([]byte, need)
			copy(buf, a.bytes)
		}
		n, err := r.Read(buf[len(a.bytes):])
		a.bytes = buf[:len(a.bytes)+n]
		if n == 0 && err != nil {
			return a, err
		}
	}
}

// size gives the length that stands before a message, as far as that has come.
func size(got []byte) int {
	if len(got) < lengthSize {
		return 0
	}
	return int(binary.BigEndian.Uint16(got))
}

// unframe gives the message in what came so far once it is whole, and says as early as can be that it is not the reply.
func unframe(query *dns.Msg, got []byte) (*dns.Msg, misfit) {
	if len(got) < lengthSize {
		return nil, misfit{}
	}
	wire, size := got[lengthSize:], size(got)
	switch {
	case size < headerSize:
		return nil, misfit{malformed, fmt.Sprintf("a message of %d bytes, too few for a header", size)}
	case len(wire) >= size:
		return understand(query, wire[:size], true)
	case len(wire) >= headerSize:
		return nil, judgeHeader(query, wire)
	}
	return nil, misfit{}
}

// fault tells what came in place of the reply, in words that are the same each time.
func (a *arrived) fault(query *dns.Msg) string {
	switch {
	case a.misfit.kind != malformed:
		return "what came is no reply to the question: " + a.misfit.kind.String()
	case text(a.bytes) != "":
		return "what came is no DNS: " + text(a.bytes)
	case a.own(query), size(a.bytes) < headerSize:
		return "what came is no reply to the question: " + a.misfit.what
	}
	return "what came is no DNS: " + payload.Excerpt(a.bytes[:glimpse])
}

// half tells what came of a message that did not come whole, after a semicolon; "" if nothing did.
func (a *arrived) half(query *dns.Msg) string {
	switch {
	case len(a.bytes) == 0:
		return ""
	case a.own(query):
		return fmt.Sprintf("; %d of its %d bytes came", len(a.bytes)-lengthSize, size(a.bytes))
	case text(a.bytes) != "":
		return "; what came is no DNS: " + text(a.bytes)
	}
	return "; what came is no whole message: " + payload.Excerpt(a.bytes[:min(len(a.bytes), glimpse)])
}

// tell tells of either, for whoever looks on.
func (a *arrived) tell(query *dns.Msg) string {
	if a.misfit.kind != fits {
		return "no reply to the question: " + a.misfit.kind.String() + ": " + a.misfit.what
	}
	return "not whole" + a.half(query)
}

// own says whether what came has the id of the question, which is another each time: its bytes are not for a text
// that is to be the same.
func (a *arrived) own(query *dns.Msg) bool {
	return len(a.bytes) >= lengthSize+2 && binary.BigEndian.Uint16(a.bytes[lengthSize:]) == query.Id
}

// glimpse is how many bytes of what is no text are told: as many as decide, since how many more came is chance.
const glimpse = lengthSize + headerSize

// text quotes the first line of what is text, and gives "" for what is none.
func text(b []byte) string {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	if quoted := payload.Excerpt(line); len(line) > 0 && quoted[0] == '"' {
		return quoted
	}
	return ""
}
