package lab

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// HealthName is the name that the nodes' unbound answers itself: an A and an AAAA record.
const HealthName = "health.lab."

// An UnboundConfig says what an unbound is to be like. It always listens on 127.0.0.1 and ::1.
type UnboundConfig struct {
	Identity string       // what it says to id.server; default: the node's name
	Listen   []netip.Addr // further addresses; they need not be there yet
	Extra    string       // further lines of the server clause
}

// Unbound starts unbound on the node and returns when it answers HealthName on 127.0.0.1. A
// second one may be started once the first has ended.
func (nd *Node) Unbound(ctx context.Context, conf UnboundConfig) (*Proc, error) {
	dir := filepath.Join(nd.dir, "unbound")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	file := filepath.Join(dir, "unbound.conf")
	if err := os.WriteFile(file, []byte(nd.unboundConf(dir, conf)), 0o644); err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	p, err := nd.Start("unbound", "unbound", "-d", "-p", "-c", file)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	return p, Wait(ctx, p.String()+" to answer", 5*time.Millisecond, func() (bool, error) {
		if !p.Running() {
			cancel(fmt.Errorf("it ended: %w: %s", p.Err(), lastLine(p.Log())))
		}
		_, err := nd.Ask(ctx, netip.MustParseAddr("127.0.0.1"), HealthQuestion())
		return err == nil, err
	})
}

func (nd *Node) unboundConf(dir string, conf UnboundConfig) string {
	if conf.Identity == "" {
		conf.Identity = nd.name
	}
	var b strings.Builder
	fmt.Fprintf(&b, "server:\n  interface: 127.0.0.1\n  interface: ::1\n")
	for _, a := range conf.Listen {
		fmt.Fprintf(&b, "  interface: %s\n", a)
	}
	fmt.Fprintf(&b, `  ip-freebind: yes
  access-control: 0.0.0.0/0 allow
  access-control: ::/0 allow
  username: ""
  chroot: ""
  directory: "%s"
  identity: "%s"
  hide-identity: no
  use-syslog: no
  module-config: "iterator"
  local-zone: "lab." static
  local-data: "%[3]s 5 IN A 192.0.2.1"
  local-data: "%[3]s 5 IN AAAA 2001:db8::1"
%[4]s
remote-control:
  control-enable: no
`, dir, conf.Identity, HealthName, conf.Extra)
	return b.String()
}

// HealthQuestion asks for HealthName's address.
func HealthQuestion() *dns.Msg { return new(dns.Msg).SetQuestion(HealthName, dns.TypeA) }

// IdentityQuestion asks which server answers: id.server, class CH, type TXT (RFC 4892).
func IdentityQuestion() *dns.Msg {
	m := new(dns.Msg).SetQuestion("id.server.", dns.TypeTXT)
	m.Question[0].Qclass = dns.ClassCHAOS
	return m
}

// Ask asks a server from inside the node, once, over UDP, and waits at most a second.
func (nd *Node) Ask(ctx context.Context, server netip.Addr, question *dns.Msg) (*dns.Msg, error) {
	c, err := nd.dial(server)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return exchange(ctx, c, question, time.Second)
}

// dial opens a UDP socket to a name server inside the node.
func (nd *Node) dial(server netip.Addr) (c *net.UDPConn, err error) {
	err = nd.Do(func() error {
		c, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(server, 53)))
		return err
	})
	return c, err
}

// exchange sends the question and gives the answer to it; other datagrams are passed over.
func exchange(ctx context.Context, c *net.UDPConn, question *dns.Msg, timeout time.Duration) (*dns.Msg, error) {
	deadline := time.Now().Add(timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := c.SetDeadline(deadline); err != nil {
		return nil, err
	}
	wire, err := question.Pack()
	if err != nil {
		return nil, err
	}
	if _, err := c.Write(wire); err != nil {
		return nil, err
	}
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return nil, err
		}
		answer := new(dns.Msg)
		if answer.Unpack(buf[:n]) == nil && answer.Id == question.Id && answer.Response {
			return answer, nil
		}
	}
}

// identity is the text of an answer to IdentityQuestion, empty when there is none.
func identity(answer *dns.Msg) string {
	for _, rr := range answer.Answer {
		if t, ok := rr.(*dns.TXT); ok {
			return strings.Join(t.Txt, "")
		}
	}
	return ""
}
