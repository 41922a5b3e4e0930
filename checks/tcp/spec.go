// Package tcp checks that something accepts TCP connections, and what it says, with TLS or without.
package tcp

import (
	"fmt"
	"net/netip"

	"vouch/checks"
	"vouch/checks/listener"
	"vouch/checks/payload"
	"vouch/checks/trust"
)

// maxBytes is the most that is sent, and that is read in search of what is expected.
const maxBytes = 64 << 10

// A Spec is the table of a check of type "tcp". Without expect it is a weak check: the kernel
// accepts connections also for a process that hangs, as long as its backlog has room. With expect
// the process itself must have answered.
//
// What came before send, or together with the greeting, is not searched for what is expected. The
// connection is closed as soon as that has come; for a server that minds, a farewell can be part of send.
type Spec struct {
	Address    string `toml:"address"`    // address:port; an IPv6 address in brackets
	Greeting   string `toml:"greeting"`   // must come before anything is sent, such as "220 "
	Send       string `toml:"send"`       // sent once connected, and greeted
	SendHex    string `toml:"send_hex"`   // the same for what is no text
	Expect     string `toml:"expect"`     // must come somewhere in the first 64 KiB
	ExpectHex  string `toml:"expect_hex"` // the same for what is no text
	TLS        bool   `toml:"tls"`        // TLS from the first byte on
	trust.Spec        // of effect with tls = true only
	checks.Origin
}

func (s *Spec) sendField() payload.Field {
	return payload.Field{Key: "send", Text: s.Send, Hex: s.SendHex, Most: maxBytes}
}

func (s *Spec) expectField() payload.Field {
	return payload.Field{Key: "expect", Text: s.Expect, Hex: s.ExpectHex, Most: maxBytes}
}

// Validate gives all that is wrong.
func (s *Spec) Validate() []checks.Problem {
	address, canonical, ps := checks.NeedEndpoint("address", s.Address, "443")
	s.Address = canonical
	ps = append(ps, s.Origin.Problems(address.Addr())...)
	ps = append(ps, s.talkProblems()...)
	return append(ps, s.tlsProblems()...)
}

func (s *Spec) talkProblems() (ps []checks.Problem) {
	if s.Greeting != "" && s.Send == "" && s.SendHex == "" {
		ps = append(ps, checks.Problem{Key: "greeting", Got: s.Greeting, What: "is for what must come before something is sent, and nothing is", WayOut: "write expect instead, or write send as well"})
	}
	ps = append(ps, payload.Field{Key: "greeting", Text: s.Greeting, Most: maxBytes}.Problems()...)
	ps = append(ps, s.sendField().Problems()...)
	return append(ps, s.expectField().Problems()...)
}

func (s *Spec) tlsProblems() []checks.Problem {
	if s.TLS {
		return append(s.Spec.Problems(), s.NameProblems()...)
	}
	return s.Idle("has no effect without tls = true", "write tls = true, or remove it")
}

// Targets gives the address that is connected to.
func (s *Spec) Targets() []netip.Addr {
	address, _ := checks.Endpoint(s.Address, 0)
	return []netip.Addr{address.Addr()}
}

// Local says which of address and files do not fit this machine.
func (s *Spec) Local() []checks.Problem {
	ps := s.Origin.Local()
	if s.TLS {
		ps = append(ps, s.Spec.Local()...)
	}
	return ps
}

// New gives the check. It opens nothing.
func (s *Spec) New() (checks.Checker, error) {
	address, err := checks.Endpoint(s.Address, 0)
	if err != nil {
		return nil, fmt.Errorf("address %q %w", s.Address, err)
	}
	c := &checker{Watcher: listener.Watcher{Target: address}, origin: s.Origin, address: address,
		greeting: []byte(s.Greeting), send: s.sendField().Bytes(), expect: s.expectField().Bytes()}
	if s.TLS {
		c.client = s.Client("")
	}
	return c, nil
}
