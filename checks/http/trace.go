package http

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	nethttp "net/http"
	"slices"
	"strings"

	"vouch/checks"
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
	checks.Tracef(ctx, checks.Sent, "%s %s\nHost: %s%s%s", req.Method, req.URL.RequestURI(), req.Host, lines(req.Header, true), capped(body))
}

// traceAnswer tells whoever looks on what came.
func traceAnswer(ctx context.Context, a *answer) {
	if checks.Traced(ctx) {
		checks.Tracef(ctx, checks.Got, "%s %s%s%s", a.Proto, a.Status, lines(a.Header, false), capped(string(a.body)))
	}
}

// lines gives headers, each on a line of its own. Values that may be secret are left out.
func lines(h nethttp.Header, ours bool) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			if ours && secret(name) {
				value = "…"
			}
			fmt.Fprintf(&b, "\n%s: %s", name, value)
		}
	}
	return b.String()
}

// secret says whether a header that we send is likely to hold one.
func secret(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"auth", "cookie", "token", "key", "secret", "password", "signature"},
		func(s string) bool { return strings.Contains(name, s) })
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
