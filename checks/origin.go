package checks

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// An Origin says where a network check asks from. It is embedded in the Spec of each. The zero Origin
// leaves all of it to the kernel. It may be copied, and used concurrently.
type Origin struct {
	Source string `toml:"source"`          // address of this node to ask from, never a managed one
	Mark   uint32 `toml:"mark" empty:"ok"` // SO_MARK, for the node's routing rules; needs CAP_NET_ADMIN; 0: none
	Device string `toml:"device"`          // interface or VRF to send through (SO_BINDTODEVICE)
}

// SourceAddr gives the address to ask from; it is invalid when the kernel chooses.
func (o Origin) SourceAddr() netip.Addr {
	a, _ := netip.ParseAddr(o.Source)
	return a.Unmap()
}

// Problems says what is wrong with the origin of a check of target, without a look at this machine.
// An invalid target is passed over, as it has a problem of its own.
func (o Origin) Problems(target netip.Addr) []Problem {
	var ps []Problem
	if p := o.sourceProblem(target); p != nil {
		ps = append(ps, *p)
	}
	if o.Device != "" && !interfaceName(o.Device) {
		ps = append(ps, Problem{Key: "device", What: "must be the name of an interface: at most 15 bytes, without blanks and slashes",
			Got: o.Device, WayOut: `write such as "vrf-mgmt"`})
	}
	if len(ps) == 0 {
		ps = o.zoneProblems(target)
	}
	return ps
}

func (o Origin) sourceProblem(target netip.Addr) *Problem {
	if o.Source == "" {
		return nil
	}
	p := &Problem{Key: "source", Got: o.Source, WayOut: "write one of this node's own addresses, such as \"192.0.2.1\""}
	a, err := netip.ParseAddr(o.Source)
	switch a = a.Unmap(); {
	case err != nil:
		p.What = "must be an IP address"
	case a.IsUnspecified() || a.IsMulticast():
		p.What = "must be the address of one host"
		p.WayOut = "leave it out to let the kernel choose"
	case target.IsValid() && a.Is4() != target.Unmap().Is4():
		p.What = "must be of the same family as the address that is probed, " + target.String()
	default:
		return nil
	}
	return p
}

// interfaceName says whether Linux could have an interface of that name (dev_valid_name).
func interfaceName(s string) bool {
	if len(s) >= unix.IFNAMSIZ || s == "." || s == ".." {
		return false
	}
	for _, r := range s {
		if r <= ' ' || r == '/' || r == ':' || r == 0x7f {
			return false
		}
	}
	return true
}

// Local says what of the origin this machine does not have, or does not let this process use: it opens
// a socket, and sends nothing.
func (o Origin) Local() []Problem {
	var ps []Problem
	note := func(key, got, what, wayOut string) {
		ps = append(ps, Problem{Key: key, Got: got, What: what, WayOut: wayOut})
	}
	var f *Failure
	if o.Device != "" {
		if _, err := interfaceIndex(o.Device); errors.As(err, &f) && f.Reason == ReasonUnreachable {
			note("device", o.Device, "there is no such interface", "create it, or name another (ip link)")
			o.Device = ""
		}
	}
	source := o.SourceAddr()
	fd, err := unix.Socket(Family(source), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil { // no IPv6, as all that is told of here needs no more than descriptors
		if !Starved(err) {
			note("source", o.Source, "no socket can be made: "+err.Error(), "write an address of the other family, or leave it out")
		}
		return ps
	}
	defer unix.Close(fd)
	if err := o.setMark(fd); err != nil {
		note("mark", fmt.Sprint(o.Mark), "a mark needs CAP_NET_ADMIN, which this process does not have", "run it as the package's unit does, or leave it out")
	}
	if err := o.setDevice(fd); errors.As(err, &f) {
		note("device", o.Device, f.Detail, "run it as the package's unit does, or leave it out")
		return ps // the source may be of that device
	}
	if what := o.sourceMissing(fd, zoned(source, o.Device)); what != "" {
		note("source", o.Source, what, "write one of this node's own addresses (ip address), or leave it out")
	}
	return ps
}

// sourceMissing tells why a socket cannot be bound to the source; "" when it can, or when that is not found out.
func (o Origin) sourceMissing(fd int, source netip.Addr) string {
	if !source.IsValid() || linkLocal(source) && source.Zone() == "" { // the zone is the target's
		return ""
	}
	source, err := numbered(source)
	var f *Failure
	if errors.As(err, &f) {
		if f.Reason != ReasonUnreachable {
			return ""
		}
		return f.Detail
	}
	switch err := unix.Bind(fd, Sockaddr(netip.AddrPortFrom(source, 0))); {
	case errors.Is(err, unix.EADDRNOTAVAIL) && o.Device != "":
		return "the address is not on this node, or not usable yet, or of another VRF than the device"
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return "the address is not on this node, or not usable yet"
	case err != nil && !Starved(err) && !errors.Is(err, unix.EADDRINUSE):
		return "the address cannot be asked from: " + err.Error()
	}
	return ""
}
