package checks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// Ends gives both ends of a check of target, each zone as a number, which the kernel is asked for at each call: the
// net package goes by a table of interfaces that is up to a minute old, and would ask through what had the name
// before. A link-local address without a zone gets that of the other end, or the device. The source is
// invalid when the kernel chooses; target may be invalid. The error is a *Failure.
func (o Origin) Ends(target netip.Addr) (source, to netip.Addr, err error) {
	source = o.SourceAddr()
	if to, err = numbered(zoned(target, source.Zone(), o.Device)); err == nil {
		source, err = numbered(zoned(source, target.Zone(), o.Device))
	}
	return source, to, err
}

func linkLocal(a netip.Addr) bool { return a.Is6() && a.IsLinkLocalUnicast() }

// zoned gives a link-local address the first zone there is.
func zoned(a netip.Addr, others ...string) netip.Addr {
	if !linkLocal(a) || a.Zone() != "" {
		return a
	}
	return a.WithZone(cmp.Or(others...))
}

// numbered puts the interface's number in the place of its name. The number has more digits than a name can
// have, as an interface may be named "100".
func numbered(a netip.Addr) (netip.Addr, error) {
	switch {
	case a.Zone() != "":
		index, err := interfaceIndex(a.Zone())
		return a.WithZone(fmt.Sprintf("%0*d", unix.IFNAMSIZ, index)), err
	case linkLocal(a):
		return a, &Failure{Reason: ReasonUnreachable, Detail: fmt.Sprintf("%s is link-local, and no interface is given", a)}
	}
	return a, nil
}

// interfaceIndex asks the kernel for the number of an interface of this name, or for one that has this number
// (netdevice(7)). The error is a *Failure; its reason is unreachable if there is none.
func interfaceIndex(zone string) (uint32, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, NetFailure(context.Background(), "", err)
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq(zone) // EINVAL: it is too long for a name
	if err == nil {
		err = unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, r)
	}
	switch {
	case err == nil:
		return r.Uint32(), nil
	case !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.EINVAL):
		return 0, NetFailure(context.Background(), "", err)
	case isIndex(fd, zone):
		index, err := strconv.ParseUint(zone, 10, 31)
		return uint32(index), err
	}
	return 0, &Failure{Reason: ReasonUnreachable, Detail: "there is no interface " + zone}
}

// isIndex says whether a text is the number of an interface.
func isIndex(fd int, zone string) bool {
	index, bad := strconv.ParseUint(zone, 10, 31)
	r, err := unix.NewIfreq("")
	if bad != nil || err != nil {
		return false
	}
	r.SetUint32(uint32(index))
	return unix.IoctlIfreq(fd, unix.SIOCGIFNAME, r) == nil
}

// Family gives AF_INET6 or, for IPv4 and for none, AF_INET.
func Family(a netip.Addr) int {
	if a.Is6() {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// Sockaddr gives an address in the form of system calls; its zone, if any, is a number, as of Ends.
func Sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	index, _ := strconv.ParseUint(a.Addr().Zone(), 10, 32)
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16(), ZoneId: uint32(index)}
}

// zoneProblems says what cannot be of link-local addresses, which are of one interface each.
func (o Origin) zoneProblems(target netip.Addr) (ps []Problem) {
	source := o.SourceAddr()
	note := func(key, got, what, wayOut string) {
		ps = append(ps, Problem{Key: key, Got: got, What: what, WayOut: wayOut})
	}
	const useless = "has a zone, which only link-local addresses have"
	if target.Zone() != "" && !linkLocal(target) {
		note("", "", "the address that is probed, "+target.String()+", "+useless, "remove the zone, or write it as device")
	}
	if source.Zone() != "" && !linkLocal(source) {
		note("source", o.Source, useless, "remove the zone, or write it as device")
	}
	if ps != nil || !target.IsValid() {
		return ps
	}
	const behind = `write the interface behind the address, such as "%s%%eth0", or as device`
	to, from := zoned(target, source.Zone(), o.Device), zoned(source, target.Zone(), o.Device)
	switch {
	case linkLocal(to) && to.Zone() == "":
		note("device", "", fmt.Sprintf("is missing: the address that is probed, %s, is link-local, and there is one of these on each interface", target),
			fmt.Sprintf(behind, target))
	case linkLocal(from) && from.Zone() == "":
		note("source", o.Source, "is link-local, and there is one of these on each interface", fmt.Sprintf(behind, source))
	case linkLocal(to) && linkLocal(from) && from.Zone() != to.Zone():
		note("source", o.Source, "must be of the same interface as the address that is probed, "+target.String(), "write the same zone, or none")
	}
	for _, a := range []netip.Addr{to, from} { // the kernel goes by the zone
		if ps == nil && o.Device != "" && linkLocal(a) && a.Zone() != o.Device {
			note("device", o.Device, fmt.Sprintf("is not the interface that the address %s is of, which alone counts", a), "remove it: the zone is enough")
		}
	}
	return ps
}

// MissingZones says which of the addresses are of an interface that this machine does not have.
func MissingZones(targets []netip.Addr) (ps []Problem) {
	for _, a := range targets {
		if a.Zone() == "" {
			continue
		}
		var f *Failure
		if _, err := interfaceIndex(a.Zone()); errors.As(err, &f) && f.Reason == ReasonUnreachable {
			ps = append(ps, Problem{What: fmt.Sprintf("%s, which the address %s is of", f.Detail, a), WayOut: "create it, or name another (ip link)"})
		}
	}
	return ps
}
