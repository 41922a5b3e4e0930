package rtnl

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"vouch/routers/rtnl/rtnltest"
)

// ip runs each line as an ip command in the namespace of the test's thread.
func ip(tb testing.TB, lines ...string) {
	tb.Helper()
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("ip %s: %v\n%s", strings.Join(lines, "; ip "), err, out)
	}
}

// sysctl sets a value in the namespace of the test's thread.
func sysctl(tb testing.TB, key, value string) {
	tb.Helper()
	if err := os.WriteFile("/proc/sys/"+key, []byte(value), 0); err != nil {
		tb.Fatal(err)
	}
}

// twoPairs makes a namespace with lo and two pairs of interfaces: eth0 (10.0.1.2/30, fd00:1::2/64)
// and eth1 (10.0.2.2/30, fd00:2::2/64), each with a carrier that peer0 and peer1 give.
func twoPairs(tb testing.TB) *rtnltest.Namespace {
	tb.Helper()
	ns := rtnltest.New(tb)
	sysctl(tb, "net/ipv6/conf/default/addr_gen_mode", "1") // no link-local addresses, which come late
	ip(tb, "link set lo up",
		"link add eth0 type veth peer name peer0", "link add eth1 type veth peer name peer1",
		"link set peer0 up", "link set peer1 up", "link set eth0 up", "link set eth1 up",
		"addr add 10.0.1.2/30 dev eth0", "addr add 10.0.2.2/30 dev eth1",
		"addr add fd00:1::2/64 dev eth0 nodad", "addr add fd00:2::2/64 dev eth1 nodad")
	return ns
}

// dropCapabilities takes all capabilities from the test's thread, which ends with the test.
func dropCapabilities(tb testing.TB) {
	tb.Helper()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		tb.Fatal(err)
	}
}
