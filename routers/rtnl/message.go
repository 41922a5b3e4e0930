package rtnl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"syscall"

	"golang.org/x/sys/unix"
)

// errMalformed says that the kernel's bytes could not be understood.
var errMalformed = errors.New("malformed netlink message")

var native = binary.NativeEndian

// A reply is what one datagram of replies amounted to.
type reply struct {
	done        bool // the kernel has nothing more to say
	interrupted bool // NLM_F_DUMP_INTR was set
}

// readReplies gives each message of b that answers request seq to each, until each returns false,
// which ends the reply. The error is the kernel's errno, or errMalformed.
func readReplies(b []byte, seq uint32, each func(kind uint16, data []byte) bool) (reply, error) {
	var r reply
	for len(b) > 0 {
		if len(b) < unix.SizeofNlMsghdr {
			return r, errMalformed
		}
		n := int(native.Uint32(b))
		if n < unix.SizeofNlMsghdr || n > len(b) {
			return r, errMalformed
		}
		kind, flags := native.Uint16(b[4:]), native.Uint16(b[6:])
		mine := native.Uint32(b[8:]) == seq
		data := b[unix.SizeofNlMsghdr:n]
		b = b[min(align(n), len(b)):]
		if !mine {
			continue
		}
		if flags&unix.NLM_F_DUMP_INTR != 0 {
			r.interrupted = true
		}
		if kind == unix.NLMSG_DONE || kind == unix.NLMSG_ERROR {
			r.done = true
			return r, kernelError(kind, flags, data)
		}
		if !each(kind, data) || flags&unix.NLM_F_MULTI == 0 {
			r.done = true
			return r, nil
		}
	}
	return r, nil
}

// kernelError gives the errno of a closing message, with the kernel's own words where it has some.
func kernelError(kind, flags uint16, data []byte) error {
	if kind == unix.NLMSG_DONE && len(data) == 0 {
		return nil
	}
	if len(data) < 4 {
		return errMalformed
	}
	code := int32(native.Uint32(data))
	if code == 0 {
		return nil
	}
	err := syscall.Errno(-code)
	if flags&unix.NLM_F_ACK_TLVS == 0 {
		return err
	}
	if text := extendedAck(kind, data[4:]); text != "" {
		return fmt.Errorf("%w (%s)", err, text)
	}
	return err
}

// extendedAck finds NLMSGERR_ATTR_MSG behind a closing message's errno. An error message first
// repeats the header of the request, and only that, for the sockets here set NETLINK_CAP_ACK.
func extendedAck(kind uint16, rest []byte) string {
	if kind == unix.NLMSG_ERROR {
		rest = rest[min(unix.SizeofNlMsghdr, len(rest)):]
	}
	for kind, value := range attributes(rest) {
		if kind == unix.NLMSGERR_ATTR_MSG {
			return unix.ByteSliceToString(value)
		}
	}
	return ""
}

// attributes walks a run of struct rtattr, without allocating: a table dump has very many. It ends
// at the first attribute that does not fit.
func attributes(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= unix.SizeofRtAttr {
			n := int(native.Uint16(b))
			if n < unix.SizeofRtAttr || n > len(b) {
				return
			}
			kind := native.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
			if !yield(kind, b[unix.SizeofRtAttr:n]) {
				return
			}
			b = b[min(align(n), len(b)):]
		}
	}
}

// align rounds up to the four bytes that messages and attributes are aligned to.
func align(n int) int { return (n + 3) &^ 3 }

// number reads an attribute of 32 bits; one that is too short reads as 0.
func number(value []byte) uint32 {
	if len(value) < 4 {
		return 0
	}
	return native.Uint32(value)
}
