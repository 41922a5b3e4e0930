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

	"github.com/miekg/dns"

	"vouch/checks"
	"vouch/checks/trust"
)

const (
	// mediaType is that of a DNS message (RFC 8484, section 6).
	mediaType = "application/dns-message"
	// maxHeader is how many bytes of headers are read.
	maxHeader = 16 << 10
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
	checks.Tracef(ctx, checks.Sent, "POST %s HTTP/2\nContent-Type: %s\nAccept: %s\n%d bytes", p.url, mediaType, mediaType, len(wire))
	t := transport(conn)
	defer t.CloseIdleConnections()
	broken := func(what string, err error) error {
		late := fmt.Sprintf("timeout after %s (sent from %s, %s)", allowed, checks.From(conn), what)
		f := trust.Failure(ctx, late, err)
		if f.Reason == checks.ReasonError {
			f = &checks.Failure{Reason: checks.ReasonProtocol, Detail: "HTTP/2 broke off, " + what, Err: err}
		}
		return f
	}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return nil, broken("no response", err)
	}
	defer resp.Body.Close()
	if f := judgeHead(ctx, resp); f != nil {
		return nil, f
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, dns.MaxMsgSize+1))
	if err != nil {
		return nil, broken("response not whole", err)
	}
	return message(ctx, &ask, body)
}

// transport speaks HTTP/2, and nothing else, over a connection that there is.
func transport(conn net.Conn) *http.Transport {
	var h2 http.Protocols
	h2.SetHTTP2(true)
	return &http.Transport{
		Protocols: &h2, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeader,
		HTTP2:          &http.HTTP2Config{MaxReceiveBufferPerConnection: 1 << 17, MaxReceiveBufferPerStream: 1 << 17},
		DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	}
}

// judgeHead wants a response to be one with a DNS message.
func judgeHead(ctx context.Context, resp *http.Response) *checks.Failure {
	if checks.Traced(ctx) {
		var b bytes.Buffer
		_ = resp.Header.Write(&b) // a buffer takes all
		text := strings.ReplaceAll(b.String(), "\r\n", "\n")
		checks.Tracef(ctx, checks.Got, "%s %d\n%s", resp.Proto, resp.StatusCode, text[:min(len(text), traceSize)])
	}
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

var errTooLong = errors.New("it is longer than 65535 bytes")

// message reads the reply from the body of a response, which has no other.
func message(ctx context.Context, query *dns.Msg, body []byte) (*dns.Msg, error) {
	reply := new(dns.Msg)
	err := reply.Unpack(body)
	if len(body) > dns.MaxMsgSize {
		err = errTooLong
	}
	if err != nil {
		return nil, &checks.Failure{Reason: checks.ReasonProtocol, Detail: "the body of the response is no DNS message", Err: err}
	}
	traceMessage(ctx, checks.Got, reply)
	if why := new(dropped).count(query, reply, nil); why != "" {
		return nil, &checks.Failure{Reason: checks.ReasonProtocol, Detail: "the body of the response is no reply to the question: " + why}
	}
	return reply, nil
}
