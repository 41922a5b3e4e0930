package state

import (
	"testing"
	"time"

	"vouch/checks"
)

// The line that is read at three in the morning.
func TestLine(t *testing.T) {
	const server = "udp 127.0.0.1:53 example.com. A"
	for _, c := range []struct {
		kind, target string
		reason       checks.Reason
		detail, want string
	}{
		{"dns", server, checks.ReasonTimeout, "timeout after 1s (sent from 192.168.53.2, 0 of 1 replies)",
			"dns udp 127.0.0.1:53 example.com. A: timeout after 1s (sent from 192.168.53.2, 0 of 1 replies)"},
		{"dns", "dns " + server, checks.ReasonTimeout, "no answer", "dns udp 127.0.0.1:53 example.com. A: timeout: no answer"},
		{"dns", "udp [::1]:53 dns. A", checks.ReasonRefused, "", "dns udp [::1]:53 dns. A: refused"},
		{"route", "default route ipv4 table 254", checks.ReasonAbsent, "no default route", "default route ipv4 table 254: absent: no default route"},
		{"tls", "127.0.0.1:853", checks.ReasonTLS, "tls: bad record MAC", "tls 127.0.0.1:853: tls: bad record MAC"},
		{"exec", "exec /bin/x", checks.ReasonStatus, "status 3", "exec /bin/x: status 3"},
		{"exec", "exec /bin/x", checks.ReasonStatus, "statusé", "exec /bin/x: status: statusé"},
		{"exec", "exec /bin/x", checks.ReasonExec, "executable is gone", "exec /bin/x: exec: executable is gone"},
		{"file", "", checks.ReasonAbsent, "absent", "file: absent"},
		{"tcp", "tcp 127.0.0.1:1", "", "", "tcp 127.0.0.1:1"},
	} {
		k := Check{Type: c.kind, Target: c.target, Reason: c.reason, Detail: c.detail, Last: time.Now()}
		if got := k.Line(); got != c.want {
			t.Errorf("got %s\nwant %s", got, c.want)
		}
	}
	if got := (&Check{Type: "tcp", Target: "tcp 127.0.0.1:1", Reason: checks.ReasonPending}).Line(); got != "tcp 127.0.0.1:1: not run yet" {
		t.Errorf("before the first run: %s", got)
	}
}

// What comes from outside changes nothing but its own words: not the order of what is around it, nor the line.
func TestClean(t *testing.T) {
	for from, want := range map[string]string{
		"a\x1b[31mb\nc\u0085d": "a [31mb c d",
		"\xffa":                "\ufffda",
		"ok \u202eliaf\u202c.": "ok  liaf .",
		"\u2066a\u2067b\u2068c\u2069d\u200ee\u200ff":    "a b c d e f",
		"a\u061cb\u202ac\u202bd\u202de":                 "a b c d e",
		"a\u2028b\u2029c\ufeffd\u00ade\U000e0041f":      "a b c d e f",
		"\u0646\u200c\u0645 \U0001f468\u200d\U0001f467": "\u0646\u200c\u0645 \U0001f468\u200d\U0001f467",
		"grüße, 日本":                                     "grüße, 日本",
	} {
		if got := Clean(from); got != want {
			t.Errorf("%+q: %+q, want %+q", from, got, want)
		}
	}
}
