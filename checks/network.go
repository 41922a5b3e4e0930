package checks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// noDeadline bounds a connection whose context has no deadline of its own.
const noDeadline = 30 * time.Second

// An EndpointError says why a text is no address and port, and how it must be written where that can
// be told.
type EndpointError struct {
	What   string // such as "has no port"
	WayOut string // such as `write "[::1]:53"`, or empty
}

// Error gives What.
func (e *EndpointError) Error() string { return e.What }

// Endpoint reads an address and a port, such as "127.0.0.1:53" or "[::1]:53"; without the port it
// gets the default one, unless that is 0. An IPv6 address must be in brackets (RFC 5952, section 6):
// in "::1:53" it cannot be told where it ends. Names are refused: they would be looked up through a
// resolver, perhaps the very one that is checked. The error is an *EndpointError.
func Endpoint(s string, port uint16) (netip.AddrPort, error) {
	ap, err := netip.ParseAddrPort(s)
	if err != nil {
		bare, bracketed := strings.CutPrefix(s, "[")
		if bracketed {
			bare, bracketed = strings.CutSuffix(bare, "]")
		}
		a, err := netip.ParseAddr(bare)
		switch {
		case err != nil || bare != s && !bracketed:
			return netip.AddrPort{}, &EndpointError{What: "is not an IP address with a port"}
		case a.Is6() && !bracketed:
			return netip.AddrPort{}, &EndpointError{"is an IPv6 address without brackets", withBrackets(s, a, port)}
		}
		ap = netip.AddrPortFrom(a, port)
	}
	ap = netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	switch a := ap.Addr(); {
	case ap.Port() == 0:
		return netip.AddrPort{}, &EndpointError{What: "has no port"}
	case a.IsUnspecified(), a.IsMulticast():
		return netip.AddrPort{}, &EndpointError{What: "is not the address of one host"}
	}
	return ap, nil
}

// NeedEndpoint reads the value of a key that must be an address with a port, of which "127.0.0.1:PORT" is an
// example. It gives the address, and as the value to keep its canonical form; or the problem.
func NeedEndpoint(key, value, port string) (netip.AddrPort, string, []Problem) {
	at, err := Endpoint(value, 0)
	switch {
	case value == "":
		return at, value, []Problem{{Key: key, What: "is missing", WayOut: fmt.Sprintf(`write %s = "127.0.0.1:%s"`, key, port)}}
	case err != nil:
		return at, value, []Problem{EndpointProblem(key, value, err,
			fmt.Sprintf(`write an address and a port, such as "127.0.0.1:%s" or "[::1]:%s"; names are not looked up`, port, port))}
	}
	return at, at.String(), nil
}

// withBrackets tells how to write an IPv6 address that stands without brackets: what follows its
// last colon is the port, if it can be one and an address is left. It gives "" for want of a port.
func withBrackets(s string, a netip.Addr, port uint16) string {
	i := strings.LastIndexByte(s, ':')
	if before, err := netip.ParseAddr(s[:i]); err == nil {
		if n, err := strconv.ParseUint(s[i+1:], 10, 16); err == nil && n > 0 {
			a, port = before, uint16(n)
		}
	}
	if port == 0 {
		return ""
	}
	return `write "` + netip.AddrPortFrom(a.Unmap(), port).String() + `"`
}

// EndpointProblem turns the error of Endpoint, read from s, into a problem of a key; wayOut is for
// when the error knows none.
func EndpointProblem(key, s string, err error, wayOut string) Problem {
	var e *EndpointError
	if errors.As(err, &e) && e.WayOut != "" {
		wayOut = e.WayOut
	}
	return Problem{Key: key, What: err.Error(), Got: s, WayOut: wayOut}
}

// NetFailure classifies an error of the network; late describes a timeout. When ctx was canceled,
// nothing was found out. A *Failure is passed on as it is. The addresses that the net package puts
// around a cause are left out: the port on our side is another each time, the check names the other.
func NetFailure(ctx context.Context, late string, err error) *Failure {
	var f *Failure
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		err = op.Err
	}
	switch {
	case errors.As(err, &f):
		return f
	case ctx.Err() == context.Canceled:
		return &Failure{Reason: ReasonUnknown, Detail: "broken off", Err: ctx.Err()}
	case Starved(err):
		return &Failure{Reason: ReasonUnknown, Err: err}
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT):
		return &Failure{Reason: ReasonTimeout, Detail: late}
	case routed(err, syscall.EINVAL):
		return &Failure{Reason: ReasonUnreachable, Detail: "a blackhole route leads there", Err: err}
	case routed(err, syscall.EACCES):
		return &Failure{Reason: ReasonDenied, Detail: "a prohibit route leads there, or this node's policy forbids it, or it is a broadcast address", Err: err}
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES):
		return &Failure{Reason: ReasonDenied, Err: err}
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return &Failure{Reason: ReasonRefused, Err: err}
	}
	for _, e := range []error{syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ENETDOWN, syscall.EHOSTDOWN,
		syscall.EADDRNOTAVAIL, syscall.ENODEV, syscall.EINVAL} {
		if errors.Is(err, e) {
			return &Failure{Reason: ReasonUnreachable, Err: err}
		}
	}
	return &Failure{Reason: ReasonError, Err: err}
}

// routed says whether it is this error with which the kernel refused to connect or to send, which it does by the kind of
// the route: EINVAL is a blackhole, EACCES is prohibit (ip-route(8)).
func routed(err error, errno syscall.Errno) bool {
	var call *os.SyscallError
	return errors.As(err, &call) && call.Err == errno && slices.Contains([]string{"connect", "write", "sendto", "sendmsg"}, call.Syscall)
}

// Starved tells whether err says that this host or this process has run out of something, such as
// file descriptors: that is no finding about what was to be checked.
func Starved(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EAGAIN} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
