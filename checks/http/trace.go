package http

import (
	"context"
	"crypto/tls"
	"fmt"
	nethttp "net/http"
	"net/http/httptrace"
	"strings"

	"vouch/checks"
	"vouch/checks/payload"
	"vouch/checks/trust"
)

// traceTLS tells whoever looks on of a handshake.
func traceTLS(ctx context.Context, state tls.ConnectionState) {
	if checks.Traced(ctx) {
		checks.Tracef(ctx, checks.Got, "%s", trust.Describe(state))
	}
}

// traceRequest gives a request that tells whoever looks on what is sent, as the library sends it.
func traceRequest(ctx context.Context, req *nethttp.Request, body string, l *line) *nethttp.Request {
	if !checks.Traced(ctx) {
		return req
	}
	if req.Body == nil {
		body = ""
	}
	checks.Tracef(ctx, checks.Note, "%s", l)
	fields := make(nethttp.Header)
	return req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		WroteHeaderField: func(name string, values []string) { fields[name] = append(fields[name], values...) },
		WroteHeaders: func() {
			checks.Tracef(ctx, checks.Sent, "%s%s", opening(req, l.over, fields), capped(body))
		},
	}))
}

// opening gives the beginning of a request in the form of HTTP/1.1. In that of the others, what stands there in the first two
// lines is in fields that begin with a colon.
func opening(req *nethttp.Request, over string, fields nethttp.Header) string {
	host, rest := req.Host, make(nethttp.Header)
	for name, values := range fields {
		switch {
		case name == "Host" || name == ":authority":
			host = values[0]
		case !strings.HasPrefix(name, ":"):
			rest[name] = values
		}
	}
	return fmt.Sprintf("%s %s %s\nHost: %s\n%s", req.Method, req.URL.RequestURI(), protos[over], host, payload.Headers(rest))
}

// protos are what net/http calls the versions.
var protos = map[string]string{"http/1.1": "HTTP/1.1", "h2": "HTTP/2.0", "h3": "HTTP/3.0"}

// traceNone tells whoever looks on what came where no answer did. HTTP/2 and HTTP/3 are not to be read: what the library
// makes of them stands for it.
func traceNone(ctx context.Context, l *line, err error) {
	switch {
	case !checks.Traced(ctx):
	case l.over == "http/1.1", over(ctx) != nil:
		checks.Tracef(ctx, checks.Got, "%s", l.heard)
	default:
		checks.Tracef(ctx, checks.Got, "no answer: %s\n%s", payload.Clip(err.Error()), l.heard)
	}
}

// traceAnswer tells whoever looks on what came.
func traceAnswer(ctx context.Context, a *answer) {
	if checks.Traced(ctx) {
		checks.Tracef(ctx, checks.Got, "%s %s\n%s%s", a.Proto, a.status(), payload.Headers(a.Header), capped(string(a.body)))
	}
}

// capped gives a body after the empty line that comes before it.
func capped(body string) string {
	switch {
	case body == "":
		return ""
	case len(body) > keptBody:
		return fmt.Sprintf("\n\n%s\n… (cut after %d bytes)", body[:keptBody], keptBody)
	}
	return "\n\n" + body
}
