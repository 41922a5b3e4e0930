package checks

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Astray says what of the origin no answer from the targets can ever come to: a source that is of this host alone, or a
// device that leads off it. It looks at this machine, and sends nothing.
func (o Origin) Astray(targets []netip.Addr) (ps []Problem) {
	for _, to := range targets {
		to = to.Unmap()
		switch source := o.SourceAddr(); {
		case source.IsLoopback() && !to.IsLoopback() && foreign(to):
			return append(ps, Problem{Key: "source", Got: o.Source, What: fmt.Sprintf("reaches nothing but this node, and %s is not on it", to),
				WayOut: "write an address of this node that answers find their way to, or leave it out"})
		case o.Device != "" && o.Device != "lo" && to.IsLoopback() && !isVRF(o.Device):
			return append(ps, Problem{Key: "device", Got: o.Device, What: fmt.Sprintf("does not lead to %s, which is this node itself", to),
				WayOut: "leave it out, or ask another address"})
		}
	}
	return nil
}

// foreign says whether the kernel says that an address is not on this node.
func foreign(a netip.Addr) bool {
	fd, err := unix.Socket(Family(a), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	a, err = numbered(a)
	return err == nil && errors.Is(unix.Bind(fd, Sockaddr(netip.AddrPortFrom(a, 0))), unix.EADDRNOTAVAIL)
}

// isVRF says whether an interface is a VRF, which may have a loopback network of its own. One of which that cannot be
// found out may be one.
func isVRF(device string) bool {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	info, err := unix.IoctlGetEthtoolDrvinfo(fd, device)
	return err != nil || unix.ByteSliceToString(info.Driver[:]) == "vrf"
}
