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
