package vyos

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"vouch/routers"
	"vouch/routers/lab"
	"vouch/routers/vyos/vyostest"
)

// A speaker is a daemon that redistributes for one family, and how that is written.
type speaker struct {
	daemon, protocol string
	enter            []string // its node of the configuration
	six              bool
}

var speakers = []speaker{
	{"bgpd", ProtocolBGP, []string{"router bgp 65001", "address-family ipv4 unicast"}, false},
	{"bgpd", ProtocolBGP, []string{"router bgp 65001", "address-family ipv6 unicast"}, true},
	{"ospfd", ProtocolOSPF, []string{"router ospf"}, false},
	{"ospf6d", ProtocolOSPF, []string{"router ospf6"}, true},
}

func (p speaker) prefix(n, of int) netip.Prefix {
	if p.six {
		return netip.MustParsePrefix(fmt.Sprintf("2001:db8:6%d::%d/128", of, n))
	}
	return netip.MustParsePrefix(fmt.Sprintf("10.53.6%d.%d/32", of, n))
}

// What a route-map does to a redistributed prefix is what the doctor says it does: nobody announces what it fails, and
// what it passes is announced. It speaks before anything is announced.
func TestExamineRouteMaps(t *testing.T) {
	for _, protocol := range []string{ProtocolBGP, ProtocolOSPF} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			b := &bench{TB: t, lab: lab.OpenAnycast(t, lab.AnycastOptions{BGP: protocol == ProtocolBGP, IPv6: true, NoUnbound: true, NoMinArrival: true, Daemons: []string{"staticd"}})}
			b.system = vyostest.New(t, vyostest.Options{SocketDir: b.lab.Nodes[0].FRR.SocketDir()})
			b.install()
			for _, p := range speakers {
				if p.protocol == protocol {
					b.routeMaps(p)
				}
			}
		})
	}
}

func (b *bench) routeMaps(s speaker) {
	r := b.router(Options{Protocol: s.protocol})
	ip, other := "ip", "10.0.0.0/8"
	if s.six {
		ip, other = "ipv6", "2001:db8::/32"
	}
	for n, c := range []struct {
		lines string // with IP for the family, P for the prefix, NAME for that of the route-map
		says  string // empty: it is announced
	}{
		{"", "route-map NAME, which does not exist"},
		{"IP prefix-list NAME permit P\nroute-map NAME permit 10\nmatch IP address prefix-list NAME", ""},
		{"route-map NAME permit 10\nmatch IP address prefix-list NEVER", "there is no prefix-list NEVER"},
		{"IP prefix-list NAME permit ELSE\nroute-map NAME permit 10\nmatch IP address prefix-list NAME", "does not permit"},
		{"route-map NAME deny 10", "does not permit"},
		{"route-map NAME permit 10\nmatch tag 7", "does not permit"},
		{"route-map NAME deny 10\nmatch tag 7\nroute-map NAME permit 20", ""},
	} {
		name := fmt.Sprintf("MAP-%s-%d", ip, n)
		in := strings.NewReplacer("IP", ip, "ELSE", other, " P\n", " "+s.prefix(n+1, 0).String()+"\n", "NAME", name)
		p, mark := s.prefix(n+1, 0), s.prefix(n+1, 1)
		if c.lines != "" {
			b.vtysh(strings.Split(in.Replace(c.lines), "\n")...)
		}
		b.vtysh(append(s.enter, "no redistribute static", "no redistribute kernel")...)
		b.vtysh(append(s.enter, "redistribute kernel route-map "+name)...)
		fs := b.examine(r, []netip.Prefix{p})
		b.must(b.apply(r, routers.Announced, p))
		b.wait("zebra to have it", func() error {
			if o := b.observe(r, p)[0]; o.Stage < routers.Selected {
				return fmt.Errorf("%+v", o)
			}
			return nil
		})
		// What comes after it has arrived, so that this one would have too.
		b.vtysh(routeLine(mark))
		b.vtysh(append(s.enter, "redistribute static")...)
		b.core(true, mark)
		via, err := b.lab.Core.NextHops(p)
		b.must(err)
		if announced := len(via) > 0; announced != (c.says == "") {
			b.Errorf("%s, %s: announced is %v", s.daemon, in.Replace(c.lines), announced)
		}
		if c.says != "" {
			found(b, fs, routers.Failing, s.daemon, in.Replace(c.says))
		} else if list := list(fs); strings.Contains(list, "fail") || !strings.Contains(list, "redistributes kernel routes through route-map "+name) {
			b.Errorf("%s, %s: %s", s.daemon, in.Replace(c.lines), list)
		}
	}
}

// A prefix that is on an interface is not announced, and the doctor says why. With the route that it advises instead the
// prefix is announced, and a service there answers.
func TestExaminePrefixOnInterface(t *testing.T) {
	b := open(t, vyostest.Options{})
	b.install()
	nd := b.lab.Nodes[0]
	for _, p := range both {
		b.must(nd.Address(t.Context(), "add", p.String(), "lo"))
	}
	kernel := b.router(Options{})
	for _, r := range []*Router{kernel, b.router(Options{Method: MethodStatic})} {
		b.must(b.apply(r, routers.Announced, both...))
		b.reads(r, routers.Configured, false, both...)
		for _, p := range both {
			found(t, b.examine(r, both), routers.Failing, p.String(), "is on lo itself", "take it off lo", "route add local "+p.String()+" dev lo", "contrib/vyos")
		}
		b.core(false, both...)
		b.must(b.apply(r, routers.Withdrawn, both...))
	}
	for _, p := range both {
		b.must(nd.Address(t.Context(), "del", p.String(), "lo"))
		found(t, b.examine(kernel, both), routers.Warning, p.String(), "not delivered to this node", "route add local "+p.String()+" dev lo")
	}
	b.delivers(both...)
	b.must(b.apply(kernel, routers.Announced, both...))
	b.becomes(kernel, routers.Advertised, false, both...)
	worst(t, b.examine(kernel, both), routers.Notice)
	for _, p := range both {
		b.answers(p.Addr())
	}
	b.must(b.apply(kernel, routers.Withdrawn, both...))
	b.becomes(kernel, routers.Absent, false, both...)
}

// answers has a service listen on the address, and the core connect to it.
func (b *bench) answers(a netip.Addr) {
	b.Helper()
	at := netip.AddrPortFrom(a, 7053).String()
	free := func(_, _ string, c syscall.RawConn) error {
		var err error
		cerr := c.Control(func(fd uintptr) {
			if a.Is6() {
				err = unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_FREEBIND, 1)
			}
		})
		if cerr != nil {
			return cerr
		}
		return err
	}
	b.must(b.do(func() error {
		l, err := (&net.ListenConfig{Control: free}).Listen(b.Context(), "tcp", at)
		if err == nil {
			b.Cleanup(func() { _ = l.Close() })
		}
		return err
	}))
	b.wait("the core to be answered at "+at, func() error {
		return b.lab.Core.Do(func() error {
			ctx, cancel := context.WithTimeout(b.Context(), queryTime)
			defer cancel()
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", at)
			if err == nil {
				_ = conn.Close()
			}
			return err
		})
	})
}
