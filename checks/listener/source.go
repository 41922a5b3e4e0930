package listener

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"vouch/checks"
	"vouch/routers/rtnl/hub"
)

// burst is how long messages are left to gather after a hint.
const burst = 5 * time.Millisecond

// groups are SKNLGRP_INET_TCP_DESTROY and SKNLGRP_INET6_TCP_DESTROY. Those of UDP are left alone: a resolver
// opens and closes a socket for each question that it asks, and the kernel would make a message of each.
var groups = []int{1, 3}

// A source is one socket that hears of TCP sockets that are gone.
type source struct {
	file *os.File
	raw  syscall.RawConn
	buf  []byte

	wanted    map[uint16]int // how many targets have a port
	congested bool           // messages were lost, and the queue was not read empty since
}

// open opens it in the network namespace of the calling thread. Until Add it hears of nothing. The
// error is checks.ErrNoHints where the kernel has no such messages, or does not let this process have them.
func open() (hub.Source[netip.AddrPort], error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, unavailable(err)
	}
	s := &source{file: os.NewFile(uintptr(fd), "sock_diag"), buf: make([]byte, 4096), wanted: map[uint16]int{}}
	if s.raw, err = s.file.SyscallConn(); err == nil {
		err = s.join()
	}
	if err != nil {
		s.Close()
		return nil, unavailable(err)
	}
	return s, nil
}

// unavailable tells what will not get better from what may: a shortage.
func unavailable(err error) error {
	if checks.Starved(err) {
		return fmt.Errorf("sock_diag socket: %w", err)
	}
	return fmt.Errorf("sock_diag socket: %w: %w", checks.ErrNoHints, err)
}

func (s *source) join() error {
	if err := s.narrow(); err != nil {
		return err
	}
	return s.control(func(fd int) error {
		if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return err
		}
		for _, g := range groups {
			if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, g); err != nil {
				return fmt.Errorf("group %d: %w", g, err)
			}
		}
		return nil
	})
}

func (s *source) control(do func(fd int) error) error {
	var failed error
	err := s.raw.Control(func(fd uintptr) { failed = do(int(fd)) })
	return errors.Join(err, failed)
}

// Add has the kernel let pass what concerns a target too.
func (s *source) Add(target netip.AddrPort) error {
	s.wanted[target.Port()]++
	if s.wanted[target.Port()] > 1 {
		return nil
	}
	err := s.narrow()
	if err != nil {
		delete(s.wanted, target.Port())
	}
	return err
}

// Remove has the kernel drop what no target is concerned by any more. If it does not, more is heard than is
// wanted.
func (s *source) Remove(target netip.AddrPort) {
	if s.wanted[target.Port()]--; s.wanted[target.Port()] == 0 {
		delete(s.wanted, target.Port())
		_ = s.narrow()
	}
}

// narrow has the kernel drop what has none of the ports. It puts the new filter in the place of the old one,
// so that nothing is missed in between.
func (s *source) narrow() error {
	program := filter(s.wanted)
	return s.control(func(fd int) error {
		return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	})
}

func (s *source) Close() { s.file.Close() }

// Follow tells of each socket, and of all when messages were lost.
func (s *source) Follow(ctx context.Context, hint func(func(netip.AddrPort) bool)) error {
	stop := context.AfterFunc(ctx, func() { _ = s.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for ctx.Err() == nil {
		gone, lost, err := s.next()
		switch {
		case ctx.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case err != nil:
			return fmt.Errorf("sock_diag subscription lost: %w", err)
		}
		hint(func(target netip.AddrPort) bool {
			for at := range gone {
				if serves(at, target) {
					return true
				}
			}
			return lost
		})
		pause.Reset(burst)
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
		}
	}
	return nil
}

// most is how many messages are taken together.
const most = 4096

// next waits for a message and takes those that are queued behind it. Once messages were lost, the kernel
// drops more without another word until the queue was read empty.
func (s *source) next() (gone map[netip.AddrPort]bool, lost bool, err error) {
	gone = map[netip.AddrPort]bool{}
	defer func() { lost = lost || s.congested }()
	for taken := 0; taken < most; taken++ {
		n, wait := 0, taken == 0
		var failed error
		err = s.raw.Read(func(fd uintptr) bool {
			n, _, failed = unix.Recvfrom(int(fd), s.buf, unix.MSG_DONTWAIT)
			return failed != unix.EAGAIN || !wait
		})
		switch {
		case err != nil:
			return gone, lost, err
		case failed == unix.EAGAIN:
			lost, s.congested = s.congested, false
			return gone, lost, nil
		case failed == unix.ENOBUFS:
			s.congested = true
		case failed == unix.EINTR:
		case failed != nil:
			return gone, lost, failed
		default:
			if at, ok := listened(s.buf[:n]); ok {
				gone[at] = true
			}
		}
	}
	return gone, lost, nil
}
