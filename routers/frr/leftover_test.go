package frr

import (
	"strings"
	"testing"
)

// What a killed zebra left in the kernel is entered and taken away; what is in the configuration is just taken
// away.
func TestLeftoversAreCleared(t *testing.T) {
	o := Options{Method: MethodStatic, SocketDir: t.TempDir()}
	const node, no = "staticd: configure terminal: ", "no ip route 10.53.54.1/32 blackhole"
	leftover := func() *replay {
		return recording(t, "zebra-static", "staticd-empty").edit("zebra", "show ip route", func(text string) string {
			return strings.Replace(text, `"metric":0`, `"metric":20`, 1) // as seen on 8.4.4
		})
	}
	checkApply(t, leftover(), o, withdraw(s4), []string{node + no, node + "ip route 10.53.54.1/32 blackhole", node + no}, nil)
	checkApply(t, recording(t, "zebra-static", "staticd-empty"), o, withdraw(s4), []string{node + no}, nil)
	checkApply(t, recording(t, "zebra-absent", "staticd-empty"), o, withdraw(s4), []string{node + no}, nil)
	checkApply(t, leftover().fail("zebra"), o, withdraw(s4), []string{node + no}, nil)
}
