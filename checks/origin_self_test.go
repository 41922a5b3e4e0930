package checks_test

import (
	"net"
	"net/netip"
	"testing"

	"vouch/checks"
	"vouch/checks/checktest"
)

// A socket that the kernel gave the very port that is asked, which nobody has, would answer itself.
func TestNoSocketAsksItself(t *testing.T) {
	s := checktest.NewSpace(t)
	s.Sysctl("ipv4/ip_local_port_range", "40000 40001") // every second choice
	for _, target := range []string{"127.0.0.1:40000", "[::1]:40001"} {
		to := netip.MustParseAddrPort(target)
		s.Do(func() {
			for range 64 {
				conn, release, err := checks.Origin{}.Dial(t.Context(), "udp", to)
				if err != nil {
					t.Errorf("%s: %v", target, err)
					return
				}
				if from := conn.LocalAddr().(*net.UDPAddr).Port; from == int(to.Port()) {
					t.Errorf("%s is asked from there", target)
				}
				release()
			}
		})
	}
}
