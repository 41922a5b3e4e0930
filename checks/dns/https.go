package dns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/miekg/dns"

	"vouch/checks"
	"vouch/checks/payload"
	"vouch/checks/trust"
)

const (
	// mediaType is that of a DNS message (RFC 8484, section 6).
	mediaType = "application/dns-message"
	// maxHeader is how many bytes of headers are read.
	maxHeader = 16 << 10
	// maxRead is how many bytes are read, those of the handshake among them, which may be half as many.
	maxRead = 512 << 10
	// keptBody is how much of a body is kept for people that is no DNS message.
	keptBody = 4 << 10
)

// url gives the URL of a server, by the name that its certificate has.
func (s *Spec) url(server netip.AddrPort) string {
	host := s.ServerName
	switch {
	case host == "" && server.Port() == ports["https"]:
		host = strings.TrimSuffix(netip.AddrPortFrom(server.Addr().WithZone(""), 1).String(), ":1")
	case host == "":
		host = netip.AddrPortFrom(server.Addr().WithZone(""), server.Port()).String()
	case server.Port() != ports["https"]:
		host = net.JoinHostPort(host, fmt.Sprint(server.Port()))
	case strings.Contains(host, ":"):
		host = "[" + host + "]"
	}
	u := url.URL{Scheme: "https", Host: host}
	return u.String() + s.Path
}

// post asks over HTTP/2 (RFC 8484). The connection is for this one question; the id of a message over HTTPS is
// 0 (section 4.1).
func (p *peer) post(ctx context.Context, conn net.Conn, query *dns.Msg, allowed string) (*dns.Msg, error) {
	ask := *query
	ask.Id = 0
	wire, err := ask.Pack()
	if err != nil {
		return nil, &checks.Failure{Reason: checks.ReasonError, Detail: "the question cannot be packed", Err: err}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(wire))
	if err != nil {
		return nil, &checks.Failure{Reason: checks.ReasonError, Detail: "the request cannot be made", Err: err}
	}
	req.Header = http.Header{"Content-Type": {mediaType}, "Accept": {mediaType}, "User-Agent": {"vouch"}}
	traceMessage(ctx, checks.Sent, &ask)
	checks.Tracef(ctx, checks.Sent, "POST %s HTTP/2\nContent-Type: %s\nAccept: %s\n%d bytes", p.url, mediaType, mediaType, len(wire))
	broken := func(what string, err error) error {
		late := "timeout after " + allowed
		f := trust.Failure(ctx, late, err)
		if end, ok := ctx.Deadline(); f.Reason == checks.ReasonError && ok && !time.Now().Before(end) {
			f = &checks.Failure{Reason: checks.ReasonTimeout, Detail: late} // which net/http does not always tell
		}
		switch f.Reason {
		case checks.ReasonTimeout:
			f.Aside = what
		case checks.ReasonError:
			f = &checks.Failure{Reason: checks.ReasonProtocol, Detail: "HTTP/2 broke off, " + what, Err: errors.New(payload.Clip(err.Error()))}
		}
		return f
	}
	plain, err := speak(ctx, conn)
	if err != nil {
		return nil, broken("no response", err)
	}
	defer plain.Close()
	resp, err := plain.RoundTrip(req)
	if err != nil {
		return nil, broken("no response", err)
	}
	defer resp.Body.Close()
	if checks.Traced(ctx) {
		checks.Tracef(ctx, checks.Got, "%s %d\n%s", resp.Proto, resp.StatusCode, payload.Headers(resp.Header))
	}
	if f := judgeHead(resp); f != nil {
		end := time.AfterFunc(lastWait, func() { resp.Body.Close() })
		body, _ := io.ReadAll(io.LimitReader(resp.Body, keptBody)) // as much as comes
		if end.Stop() || len(body) > 0 {
			f.Detail += begins(ctx, body)
		}
		return nil, f
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, dns.MaxMsgSize+1))
	if err != nil {
		return nil, broken("response not whole", err)
	}
	return message(ctx, &ask, body)
}

// speak makes a connection of HTTP/2 out of one that is already there. It is not for a pool, which would hide why
// the server ended it.
func speak(ctx context.Context, conn net.Conn) (*http.ClientConn, error) {
	var h2 http.Protocols
	h2.SetHTTP2(true)
	t := &http.Transport{
		Protocols: &h2, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeader,
		HTTP2:          &http.HTTP2Config{MaxReceiveBufferPerConnection: 1 << 17, MaxReceiveBufferPerStream: 1 << 17},
		DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	}
	plain, err := t.NewClientConn(ctx, "https", conn.RemoteAddr().String())
	if t.TLSNextProto["h2"] == nil { // where net/http keeps what it has for HTTP/2
		if err == nil {
			plain.Close()
		}
		err = &checks.Failure{Reason: checks.ReasonUnknown, Detail: "HTTP/2 is switched off in this process: take http2client=0 out of its GODEBUG"}
	}
	return plain, err
}

// lastWait is how long the body of a response that is no answer may take, as it decides nothing. Tests have it otherwise.
var lastWait = 100 * time.Millisecond

// judgeHead wants a response to be one with a DNS message.
func judgeHead(resp *http.Response) *checks.Failure {
	if resp.StatusCode != http.StatusOK {
		status := strings.TrimSpace(fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode)))
		return &checks.Failure{Reason: checks.ReasonStatus, Detail: fmt.Sprintf("HTTP status %s for %s, want 200", status, resp.Request.URL)}
	}
	kind := resp.Header.Get("Content-Type")
	if got, _, err := mime.ParseMediaType(kind); err != nil || got != mediaType {
		return &checks.Failure{Reason: checks.ReasonProtocol, Detail: fmt.Sprintf("the response is of type %q, want %s", short(kind), mediaType)}
	}
	return nil
}

// begins tells how the body of a response begins that has no DNS message, after a semicolon, if it is text; whoever
// looks on is shown more of it.
func begins(ctx context.Context, body []byte) string {
	if checks.Traced(ctx) {
		checks.Tracef(ctx, checks.Got, "%s", payload.Dump(body))
	}
	if len(body) == 0 {
		return "; the body is empty"
	}
	if quoted := payload.Excerpt(body); quoted[0] == '"' {
		return "; the body begins " + quoted
	}
	return ""
}

// message reads the reply from the body of a response, which has no other.
func message(ctx context.Context, query *dns.Msg, body []byte) (*dns.Msg, error) {
	reply, m := understand(query, body, true)
	if len(body) > dns.MaxMsgSize {
		m = misfit{malformed, "it is longer than 65535 bytes"}
	}
	switch m.kind {
	case fits:
		traceMessage(ctx, checks.Got, reply)
		return reply, nil
	case malformed:
		return nil, &checks.Failure{Reason: checks.ReasonProtocol,
			Detail: "the body of the response is no DNS reply: " + m.what + begins(ctx, body)}
	}
	checks.Tracef(ctx, checks.Got, "no reply to the question: %s: %s\n%s", m.kind, m.what, payload.Dump(body))
	return nil, &checks.Failure{Reason: checks.ReasonProtocol, Detail: "the body of the response is no reply to the question: " + m.kind.String()}
}
