package http

import (
	"context"
	"crypto/tls"
	"fmt"
	nethttp "net/http"

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

// traceRequest tells whoever looks on what is sent.
func traceRequest(ctx context.Context, req *nethttp.Request, body string, l *line) {
	if !checks.Traced(ctx) {
		return
	}
	if req.Body == nil {
		body = ""
	}
	checks.Tracef(ctx, checks.Note, "%s", l)
	checks.Tracef(ctx, checks.Sent, "%s %s\nHost: %s\n%s%s", req.Method, req.URL.RequestURI(), req.Host, payload.Headers(req.Header), capped(body))
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
