package checks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"
)

// Ask dials as Dial does, has talk use the connection, and closes it. Each failure, also one of talk, tells from
// where it was asked. The error is talk's, or a *Failure.
func (o Origin) Ask(ctx context.Context, network string, target netip.AddrPort, talk func(net.Conn) error) error {
	conn, release, err := o.Dial(ctx, network, target)
	if err != nil {
		return err
	}
	defer release()
	return Told(talk(conn), o.Sent(From(conn)))
}

// Told gives a copy of the failure that err is, which tells from where it was asked unless it does so already. What was
// not found out is left as it is: that is no matter of where it was asked from.
func Told(err error, sent string) error {
	var f *Failure
	if !errors.As(err, &f) || f.Reason == ReasonUnknown || f.Sent != "" {
		return err
	}
	told := *f
	told.Sent = sent
	return &told
}

// Sent tells people from where a check asks: "sent from 192.0.2.1, mark 7, device eth0". From is the address, and
// empty where none was come by.
func (o Origin) Sent(from string) string {
	if from != "" {
		return "sent" + Origin{Source: from, Mark: o.Mark, Device: o.Device}.as()
	}
	return strings.TrimPrefix(Origin{Mark: o.Mark, Device: o.Device}.as(), " ")
}

// as tells what an origin is, such as " from 192.0.2.1, mark 7".
func (o Origin) as() string {
	var parts []string
	if o.Source != "" {
		parts = append(parts, "from "+o.Source)
	}
	if o.Mark != 0 {
		parts = append(parts, fmt.Sprintf("mark %d", o.Mark))
	}
	if o.Device != "" {
		parts = append(parts, "device "+o.Device)
	}
	if parts == nil {
		return ""
	}
	return " " + strings.Join(parts, ", ")
}

// From tells people what address a connection is from, such as "192.0.2.1"; "" if it has none.
func From(conn net.Conn) string {
	if conn == nil || conn.LocalAddr() == nil {
		return ""
	}
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	if err != nil {
		return ""
	}
	return host
}

// sentTo is Sent for a target to which there is no connection: with the address that the kernel would choose, unless
// the source is set. It is empty where the origin is not to be had, as the failure is about that then.
func (o Origin) sentTo(target netip.AddrPort) string {
	fd, err := unix.Socket(Family(target.Addr()), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return o.Sent("")
	}
	defer unix.Close(fd)
	source, to, err := o.Ends(target.Addr())
	if err != nil || o.Apply(fd) != nil {
		return ""
	}
	if source.IsValid() {
		if unix.Bind(fd, Sockaddr(netip.AddrPortFrom(source, 0))) != nil {
			return ""
		}
		return o.Sent(o.SourceAddr().String())
	}
	if unix.Connect(fd, Sockaddr(netip.AddrPortFrom(to, target.Port()))) != nil { // which sends nothing
		return o.Sent("")
	}
	switch name, _ := unix.Getsockname(fd); name := name.(type) {
	case *unix.SockaddrInet4:
		return o.Sent(netip.AddrFrom4(name.Addr).String())
	case *unix.SockaddrInet6:
		return o.Sent(netip.AddrFrom16(name.Addr).String())
	}
	return o.Sent("")
}

// Unsent is Failure for a socket of datagrams to target that did not come about; it tells from where it would have asked.
// Within is the time that there was for it.
func (o Origin) Unsent(ctx context.Context, target netip.AddrPort, within string, err error) error {
	return Told(o.unsent(ctx, within, err), o.sentTo(target))
}

// unsent takes no time but this process's own: to connect a socket of datagrams is no more than to look a route up.
func (o Origin) unsent(ctx context.Context, within string, err error) *Failure {
	f := o.Failure(ctx, "", err)
	if f.Reason == ReasonTimeout {
		f = &Failure{Reason: ReasonUnknown, Detail: "this process did not get to run within " + within}
	}
	return f
}
