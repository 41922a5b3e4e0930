package checks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
)

func TestEndpoint(t *testing.T) {
	for s, want := range map[string]string{
		"127.0.0.1": "127.0.0.1:53", "[::1]": "[::1]:53", "[::1]:5": "[::1]:5", "1.2.3.4:5": "1.2.3.4:5",
		"[::ffff:1.2.3.4]": "1.2.3.4:53", "[::ffff:1.2.3.4]:5": "1.2.3.4:5",
		"": "", "localhost": "", "localhost:53": "", "1.2.3.4:": "", "1.2.3.4:0": "", ":53": "", "[::1": "", "::1]": "", "[1.2.3.4": "",
		"0.0.0.0": "", "::": "", "[::]": "", "::1": "", "::1:53": "", "::ffff:1.2.3.4": "", "::1%lo": "", "224.0.0.1": "", "1.2.3.4/32": "", " 1.2.3.4": "", "[[::1]]": "", "[::1]x": "",
	} {
		got, err := Endpoint(s, 53)
		if want == "" && err == nil || want != "" && (err != nil || got != netip.MustParseAddrPort(want)) {
			t.Errorf("%q: %v, %v, want %q", s, got, err, want)
		}
	}
	if _, err := Endpoint("127.0.0.1", 0); err == nil {
		t.Error("no port and no default is accepted")
	}
}

// What follows the last colon of an IPv6 address without brackets is meant as the port, if it can be.
func TestEndpointWithoutBrackets(t *testing.T) {
	for s, want := range map[string][2]string{
		"::1":              {`write "[::1]:53"`, ""},
		"::1:853":          {`write "[::1]:853"`, `write "[::1]:853"`},
		"2001:db8::1":      {`write "[2001:db8::1]:53"`, ""},
		"2001:db8::1:853":  {`write "[2001:db8::1]:853"`, `write "[2001:db8::1]:853"`},
		"2001:db8::1:85a":  {`write "[2001:db8::1:85a]:53"`, ""},
		"2001:db8::1:0":    {`write "[2001:db8::1:0]:53"`, ""},
		"1:2:3:4:5:6:7:8":  {`write "[1:2:3:4:5:6:7:8]:53"`, ""},
		"fe80::1%lo":       {`write "[fe80::1%lo]:53"`, ""},
		"::ffff:192.0.2.1": {`write "192.0.2.1:53"`, ""},
		"127.0.0.1:x":      {"", ""},
	} {
		for i, port := range []uint16{53, 0} {
			_, err := Endpoint(s, port)
			if e := (*EndpointError)(nil); !errors.As(err, &e) || e.WayOut != want[i] {
				t.Errorf("%q with default port %d: %#v, want the way out %q", s, port, err, want[i])
			}
			wayOut := cmp.Or(want[i], "otherwise")
			if got := EndpointProblem("k", s, err, "otherwise"); got != (Problem{"k", err.Error(), s, wayOut}) {
				t.Errorf("%q: %+v, want the way out %q", s, got, wayOut)
			}
		}
	}
}

func TestNetFailure(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	op := func(err error) error {
		return &net.OpError{Op: "read", Net: "udp", Source: &net.UDPAddr{Port: 4711}, Err: os.NewSyscallError("read", err)}
	}
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want string
	}{
		{t.Context(), op(syscall.ECONNREFUSED), "refused: read: connection refused"},
		{t.Context(), op(syscall.ECONNRESET), "refused: read: connection reset by peer"},
		{t.Context(), op(syscall.EPIPE), "refused: read: broken pipe"},
		{t.Context(), op(syscall.ENETUNREACH), "unreachable: read: network is unreachable"},
		{t.Context(), op(syscall.EHOSTUNREACH), "unreachable: read: no route to host"},
		{t.Context(), op(syscall.EADDRNOTAVAIL), "unreachable: read: cannot assign requested address"},
		{t.Context(), op(syscall.EPERM), "denied: read: operation not permitted"},
		{t.Context(), &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, "timeout: late"},
		{t.Context(), context.DeadlineExceeded, "timeout: late"},
		{t.Context(), op(syscall.ETIMEDOUT), "timeout: late"},
		{t.Context(), fmt.Errorf("x: %w", &Failure{Reason: ReasonAbsent}), "absent"},
		{canceled, op(syscall.ECONNREFUSED), "unknown: broken off: context canceled"},
	} {
		if got := NetFailure(c.ctx, "late", c.err).Error(); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}
