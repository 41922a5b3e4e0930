package http

import (
	"fmt"
	nethttp "net/http"
	"strings"
	"sync"
	"testing"

	"vouch/checks"
)

// Whoever looks on sees what went over the wire, but no secrets and not all of a long body.
func TestTrace(t *testing.T) {
	each(t, func(t *testing.T, way string) {
		s := serve(t, nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
			w.Header().Set("X-Node", "node1")
			w.Header().Set("Set-Cookie", "session=s3cret")
			fmt.Fprint(w, "begin", strings.Repeat("x", 10000), "end")
		}))
		spec := s.spec(way, "/path?query")
		spec.Method, spec.Body, spec.ExpectBody = "POST", "what is sent", "end$"
		spec.Headers = map[string]string{"Authorization": "Basic s3cret", "X-Api-Key": "s3cret", "X-Probe": "yes"}
		var mu sync.Mutex
		var b strings.Builder
		ctx := checks.WithTrace(t.Context(), func(d checks.Direction, text string) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(&b, "%c %s\n", d, text)
		})
		want(t, create(t, spec).Check(ctx), "")
		got := b.String()
		words := []string{"* over ", "> POST /path?query\nHost: " + name, "Authorization: …", "X-Api-Key: …", "X-Probe: yes", "\n\nwhat is sent\n",
			"< HTTP/", "200 OK", "X-Node: node1", "Set-Cookie: …", "\n\nbegin", "(cut after 4096 bytes)"}
		if way != "plain" && way != "h2c" {
			words = append(words, "certificate of "+name)
		}
		for _, w := range words {
			if !strings.Contains(got, w) {
				t.Errorf("no %q in\n%.2000s", w, got)
			}
		}
		if strings.Contains(got, "s3cret") || len(got) > 6000 {
			t.Errorf("%d bytes: %s", len(got), got)
		}
	})
}
