package payload

import (
	"net/http"
	"strings"
	"testing"
)

func TestHeaders(t *testing.T) {
	h := http.Header{"X-B": {"2", "3"}, "X-A": {"1"}, "Www-Authenticate": {"Basic realm=x"}, "Etag": {"4"}}
	for _, name := range []string{"Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie", "X-Auth-Token", "X-Api-Key", "X-Session-Id",
		"X-Amz-Signature", "X-Secret", "X-Password", "Authentication-Info", "X-Credential", "X-Jwt-Assertion"} {
		h.Set(name, "hush")
	}
	got := Headers(h)
	if strings.Contains(got, "hush") {
		t.Errorf("a secret is shown:\n%s", got)
	}
	for _, w := range []string{"X-A: 1\n", "X-Api-Key: …\n", "X-B: 2\nX-B: 3\n", "Www-Authenticate: Basic realm=x\n", "Etag: 4\n", "Set-Cookie: …\n"} {
		if !strings.Contains(got, w) {
			t.Errorf("no %q in\n%s", w, got)
		}
	}
	if got := Headers(http.Header{"X": {strings.Repeat("y", 1<<20)}}); len(got) > 5<<10 || !strings.HasSuffix(got, "y…") {
		t.Errorf("%d bytes", len(got))
	}
	if got := Headers(nil); got != "" {
		t.Error(got)
	}
}

func TestClip(t *testing.T) {
	for in, want := range map[string]string{"": "", "short": "short", strings.Repeat("x", 199) + "ü": strings.Repeat("x", 199) + "…"} {
		if got := Clip(in); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
