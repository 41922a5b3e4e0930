package checks_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"vouch/checks"
	"vouch/checks/checktest"
)

// links joins two new spaces by links: fe80::a is on the interfaces of these names here, fe80::b there, on far0 and on.
func links(t *testing.T, names ...string) (near, far *checktest.Space) {
	t.Helper()
	near, far = checktest.NewSpace(t), checktest.NewSpace(t)
	for i, name := range names {
		checktest.Link(near, far, name, fmt.Sprintf("far%d", i), 1500, 1500, []string{"fe80::a/64"}, []string{"fe80::b/64"})
	}
	for _, name := range names {
		near.Await("fe80::b%" + name)
	}
	return near, far
}

// answering has what is connected to on an interface of the space say its name.
func answering(t *testing.T, s *checktest.Space, link string, port int) {
	t.Helper()
	lc := net.ListenConfig{Control: checks.Origin{Device: link}.Control}
	var l net.Listener
	var err error
	s.Do(func() { l, err = lc.Listen(t.Context(), "tcp6", fmt.Sprintf("[::]:%d", port)) })
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, link)
			c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
}

// ask tells who answered, or why nobody did, and from where it was asked.
func ask(t *testing.T, s *checktest.Space, o checks.Origin, target string) (answer, from string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	s.Do(func() {
		conn, release, err := o.Dial(ctx, "tcp", netip.MustParseAddrPort(target))
		if err != nil {
			answer = err.Error()
			return
		}
		defer release()
		b := make([]byte, 16)
		n, err := conn.Read(b)
		if err != nil {
			answer = err.Error()
			return
		}
		answer, from = string(b[:n]), checks.From(conn)
	})
	return answer, from
}

// A zone is the interface that has the name now, whatever had it when it was asked last.
func TestRenamedInterface(t *testing.T) {
	near, far := links(t, "va", "vb")
	answering(t, far, "far0", 9300)
	answering(t, far, "far1", 9300)
	want := func(what string, o checks.Origin, target, answer, from string) {
		t.Helper()
		if got, at := ask(t, near, o, target); got != answer || at != from {
			t.Errorf("%s: %q from %q, want %q from %q", what, got, at, answer, from)
		}
	}
	const target = "[fe80::b%va]:9300"
	want("first", checks.Origin{}, target, "far0", "fe80::a%va")
	want("first, through the device", checks.Origin{Device: "va"}, "[fe80::b]:9300", "far0", "fe80::a%va")
	near.IP("link set va name vc")
	want("renamed", checks.Origin{}, target, "unreachable: there is no interface va", "")
	want("renamed, source", checks.Origin{Source: "fe80::a%va"}, "[fe80::b%vc]:9300", "unreachable: there is no interface va", "")
	near.IP("link set vb name va")
	for what, o := range map[string]checks.Origin{"none": {}, "bare": {Source: "fe80::a"}, "whole": {Source: "fe80::a%va"}} {
		want("another, source "+what, o, target, "far1", "fe80::a%va")
	}
	want("another, zone of the source", checks.Origin{Source: "fe80::a%va"}, "[fe80::b]:9300", "far1", "fe80::a%va")
	want("another, through the device", checks.Origin{Device: "va"}, "[fe80::b]:9300", "far1", "fe80::a%va")
	want("nothing is given", checks.Origin{}, "[fe80::b]:9300", "unreachable: fe80::b is link-local, and no interface is given", "")
}

// An interface may be named like the number of another.
func TestNumberForName(t *testing.T) {
	near, far := links(t, "va", "vb")
	answering(t, far, "far0", 9300)
	answering(t, far, "far1", 9300)
	var va, vb *net.Interface
	var err error
	near.Do(func() {
		if va, err = net.InterfaceByName("va"); err == nil {
			vb, err = net.InterfaceByName("vb")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := ask(t, near, checks.Origin{}, fmt.Sprintf("[fe80::b%%%d]:9300", va.Index)); got != "far0" {
		t.Errorf("by number: %s", got)
	}
	near.IP(fmt.Sprintf("link set vb name %d", va.Index))
	if got, _ := ask(t, near, checks.Origin{}, fmt.Sprintf("[fe80::b%%%d]:9300", va.Index)); got != "far1" {
		t.Errorf("the name %d of interface %d: %s", va.Index, vb.Index, got)
	}
	if got, _ := ask(t, near, checks.Origin{}, "[fe80::b%va]:9300"); got != "far0" {
		t.Errorf("va, whose number is the other's name: %s", got)
	}
}

// problems tells what of the origin is not in the space.
func problems(s *checktest.Space, o checks.Origin) string {
	var got []string
	s.Do(func() {
		for _, p := range o.Local() {
			got = append(got, p.Key+": "+p.What)
		}
	})
	return strings.Join(got, "|")
}

// Local is of what the check will use: the address of the link, through the device.
func TestLocalDevice(t *testing.T) {
	s := checktest.NewSpace(t)
	s.IP("link add d1 type veth peer name d2", "link set d1 up", "link set d2 up", "addr add 10.9.8.1/24 dev d2", "addr add fe80::a/64 dev d2 nodad")
	for _, c := range []struct {
		origin checks.Origin
		want   string
	}{
		{checks.Origin{Source: "10.9.8.1"}, ""},
		{checks.Origin{Source: "10.9.8.1", Device: "d2", Mark: 7}, ""},
		{checks.Origin{Source: "10.9.8.2", Device: "d2"}, elsewhere},
		{checks.Origin{Source: "fe80::a", Device: "d2"}, ""},
		{checks.Origin{Source: "fe80::a%d2"}, ""},
		{checks.Origin{Source: "fe80::a"}, ""}, // the target tells of which interface
		{checks.Origin{Source: "fe80::c%d2"}, nowhere},
		{checks.Origin{Source: "fe80::a%nosuch"}, "source: there is no interface nosuch"},
		{checks.Origin{Source: "fe80::a", Device: "nosuch"}, "device: there is no such interface"},
	} {
		if got := problems(s, c.origin); got != c.want {
			t.Errorf("%+v: %q, want %q", c.origin, got, c.want)
		}
	}
}

const (
	nowhere   = "source: the address is not on this node, or not usable yet"
	elsewhere = nowhere + ", or of another VRF than the device"
)

// Astray is what no answer can come to, whatever the target does.
func TestAstray(t *testing.T) {
	s := checktest.NewSpace(t)
	s.IP("link add d1 type veth peer name d2", "link set d1 up", "link set d2 up", "addr add 192.0.2.1/24 dev d1", "addr add 2001:db8::1/64 dev d1 nodad")
	for _, c := range []struct {
		origin checks.Origin
		to     string
		want   string
	}{
		{checks.Origin{}, "127.0.0.1", ""},
		{checks.Origin{Source: "127.0.0.1"}, "127.0.0.2", ""},
		{checks.Origin{Source: "127.0.0.1"}, "192.0.2.1", ""},
		{checks.Origin{Source: "192.0.2.1"}, "192.0.2.2", ""},
		{checks.Origin{Source: "127.0.0.1"}, "192.0.2.2", "source: reaches nothing but this node, and 192.0.2.2 is not on it"},
		{checks.Origin{Source: "::1"}, "2001:db8::1", ""},
		{checks.Origin{Source: "::1"}, "2001:db8::2", "source: reaches nothing but this node, and 2001:db8::2 is not on it"},
		{checks.Origin{Source: "::1"}, "fe80::2%d1", "source: reaches nothing but this node, and fe80::2%d1 is not on it"},
		{checks.Origin{Device: "lo"}, "127.0.0.1", ""},
		{checks.Origin{Device: "d1"}, "192.0.2.1", ""},
		{checks.Origin{Device: "nosuch"}, "127.0.0.1", ""}, // Local tells
		{checks.Origin{Device: "d1"}, "127.0.0.1", "device: does not lead to 127.0.0.1, which is this node itself"},
		{checks.Origin{Device: "d1"}, "::1", "device: does not lead to ::1, which is this node itself"},
	} {
		var got []string
		s.Do(func() {
			for _, p := range c.origin.Astray([]netip.Addr{netip.MustParseAddr(c.to)}) {
				got = append(got, p.Key+": "+p.What)
			}
		})
		if text := strings.Join(got, "|"); text != c.want {
			t.Errorf("%+v to %s: %q, want %q", c.origin, c.to, text, c.want)
		}
	}
}

// An address in a VRF is on this node only for who asks through that.
func TestLocalVRF(t *testing.T) {
	s := checktest.NewSpace(t)
	var err error
	s.Do(func() { err = exec.Command("ip", "link", "add", "vrf1", "type", "vrf", "table", "10").Run() })
	if err != nil {
		t.Skip("SKIPPED: this kernel has no VRFs: ", err)
	}
	s.IP("link set vrf1 up", "link add d1 type veth peer name d2", "link set d1 master vrf1", "link set d1 up", "link set d2 up",
		"addr add 10.9.9.1/24 dev d1", "addr add fd99::1/64 dev d1 nodad", "addr add 10.9.8.1/24 dev d2")
	s.Do(func() {
		if ps := (checks.Origin{Device: "vrf1"}).Astray([]netip.Addr{netip.MustParseAddr("127.0.0.1")}); ps != nil {
			t.Errorf("a VRF has loopback addresses of its own: %+v", ps)
		}
	})
	for _, c := range []struct{ source, device, want string }{
		{"10.9.9.1", "vrf1", ""}, {"fd99::1", "vrf1", ""}, {"10.9.9.1", "d1", ""}, {"10.9.8.1", "d2", ""},
		{"10.9.9.1", "", nowhere}, {"10.9.8.1", "vrf1", elsewhere},
	} {
		if got := problems(s, checks.Origin{Source: c.source, Device: c.device}); got != c.want {
			t.Errorf("%s through %q: %q, want %q", c.source, c.device, got, c.want)
		}
	}
}

// taken holds as many connections to a target as this space has ports, until the test ends.
func taken(t *testing.T, s *checktest.Space, o checks.Origin, target netip.AddrPort, ports int) {
	t.Helper()
	for range ports {
		s.Do(func() {
			_, release, err := o.Dial(t.Context(), "tcp", target)
			if err != nil {
				t.Errorf("%s: a port is left, and yet: %v", target, err)
				return
			}
			t.Cleanup(release)
		})
	}
}

// That no port of this node is left says nothing of who would be asked; and others are asked yet.
func TestNoPortLeft(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "[::1]"} {
		for _, source := range []string{"", strings.Trim(host, "[]")} {
			t.Run(host+" "+source, func(t *testing.T) {
				s := checktest.NewSpace(t)
				s.Sysctl("ipv4/ip_local_port_range", "40000 40003")
				targets := make([]netip.AddrPort, 2)
				for i := range targets {
					targets[i] = netip.MustParseAddrPort(fmt.Sprintf("%s:%d", host, 9300+i))
					var l net.Listener
					var err error
					s.Do(func() { l, err = net.Listen("tcp", targets[i].String()) })
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { l.Close() })
				}
				o := checks.Origin{Source: source}
				taken(t, s, o, targets[0], 4)
				var err error
				s.Do(func() { _, _, err = o.Dial(t.Context(), "tcp", targets[0]) })
				var f *checks.Failure
				if !errors.As(err, &f) || f.Reason != checks.ReasonUnknown || !strings.Contains(f.Detail, "ip_local_port_range") {
					t.Errorf("with no port left: %v, want unknown", err)
				}
				taken(t, s, o, targets[1], 4)
				s.Do(func() {
					_, _, err = checks.Origin{Source: "198.51.100.7"}.Dial(t.Context(), "tcp", netip.MustParseAddrPort("127.0.0.1:9300"))
				})
				if !errors.As(err, &f) || f.Reason != checks.ReasonUnreachable || !strings.Contains(f.Detail, "198.51.100.7 is not on this node") {
					t.Errorf("from another's address: %v", err)
				}
			})
		}
	}
}

// With UDP it is the same.
func TestNoPortLeftUDP(t *testing.T) {
	s := checktest.NewSpace(t)
	s.Sysctl("ipv4/ip_local_port_range", "40000 40003")
	target := netip.MustParseAddrPort("127.0.0.1:9300")
	for _, source := range []string{"127.0.0.1", ""} {
		var err error
		for range 10 { // nobody listens there, so that none is asked by itself
			s.Do(func() {
				var release func()
				if _, release, err = (checks.Origin{Source: source}).Dial(t.Context(), "udp", target); err == nil {
					t.Cleanup(release)
				}
			})
		}
		if f := (*checks.Failure)(nil); !errors.As(err, &f) || f.Reason != checks.ReasonUnknown {
			t.Errorf("from %q with no port left: %v, want unknown", source, err)
		}
	}
	if got := problems(s, checks.Origin{Source: "127.0.0.1"}); got != "" {
		t.Errorf("local, with no port left: %s", got)
	}
}

// Without an address to ask from there is a fault, and it is not of ports.
func TestNoAddress(t *testing.T) {
	s := checktest.NewSpace(t)
	s.IP("link add d1 type veth peer name d2", "link set d1 addrgenmode none", "link set d1 up", "link set d2 up", "addr del ::1/128 dev lo", "route add 2001:db8::/64 dev d1")
	for _, network := range []string{"tcp", "udp"} {
		var err error
		s.Do(func() {
			_, _, err = checks.Origin{}.Dial(t.Context(), network, netip.MustParseAddrPort("[2001:db8::1]:9300"))
		})
		if f := (*checks.Failure)(nil); !errors.As(err, &f) || f.Reason != checks.ReasonUnreachable || !strings.Contains(f.Detail, "no address to ask from") {
			t.Errorf("%s: %v", network, err)
		}
	}
}

// 127.0.0.1 leads nowhere but to this node, which is not for want of a route.
func TestLoopbackSource(t *testing.T) {
	s := checktest.NewSpace(t)
	s.IP("link add d1 type veth peer name d2", "addr add 192.0.2.1/24 dev d1", "link set d1 up", "link set d2 up")
	for _, network := range []string{"tcp", "udp"} {
		for target, want := range map[string]string{
			"192.0.2.2:9300": "from the source address 127.0.0.1 nothing but this node itself can be asked",
			"192.0.2.1:9300": "",
		} {
			var err error
			s.Do(func() {
				_, release, dialed := checks.Origin{Source: "127.0.0.1"}.Dial(t.Context(), network, netip.MustParseAddrPort(target))
				if err = dialed; err == nil {
					release()
				}
			})
			f := (*checks.Failure)(nil)
			if refused := network == "tcp" && errors.As(err, &f) && f.Reason == checks.ReasonRefused; want == "" && (err == nil || refused) {
				continue
			}
			if !errors.As(err, &f) || f.Reason != checks.ReasonUnreachable || f.Detail != want {
				t.Errorf("%s to %s: %v", network, target, err)
			}
		}
	}
}
