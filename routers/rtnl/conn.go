package rtnl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// bufferSize is more than the kernel ever puts into one datagram (32 KiB for a dump).
const bufferSize = 64 << 10

// The library finds its byte order out when it is first asked, in a variable without a lock (netlink 1.3.1):
// it is asked here, before there can be two goroutines.
var _ = nl.NativeEndian()

// A conn is one rtnetlink socket, used by one goroutine at a time.
type conn struct {
	file *os.File
	raw  syscall.RawConn
	buf  []byte
	lent *[]byte // buf, if it is to be given back

	datagrams int  // received of the kernel's answers
	congested bool // messages were lost, and the queue was not read empty since
}

// buffers are lent to the sockets of one reading each, of which there may be thousands a second.
var buffers = sync.Pool{New: func() any { b := make([]byte, bufferSize); return &b }}

// dial opens a socket for one reading in the network namespace of the calling thread.
func dial() (*conn, error) {
	c, err := open()
	if err == nil {
		c.lent = buffers.Get().(*[]byte)
		c.buf = *c.lent
	}
	return c, err
}

// open opens a socket without a buffer.
func open() (*conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("bind rtnetlink socket: %w", err)
	}
	// Kernels that lack one of these options answer all the same, only less tersely.
	for _, option := range []int{unix.NETLINK_GET_STRICT_CHK, unix.NETLINK_EXT_ACK, unix.NETLINK_CAP_ACK} {
		_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, option, 1)
	}
	c := &conn{file: os.NewFile(uintptr(fd), "rtnetlink")}
	if c.raw, err = c.file.SyscallConn(); err != nil {
		c.close()
		return nil, fmt.Errorf("rtnetlink socket: %w", err)
	}
	return c, nil
}

func (c *conn) close() {
	c.file.Close()
	if c.lent != nil {
		buffers.Put(c.lent)
		c.lent, c.buf = nil, nil
	}
}

// dump asks for a whole table and gives each message of it to each, until each returns false; then
// the rest of the table is left in the socket, which is of no further use.
func (c *conn) dump(ctx context.Context, req *nl.NetlinkRequest, each func(data []byte) bool) error {
	req.Flags |= unix.NLM_F_DUMP
	return c.exchange(ctx, req, func(_ uint16, data []byte) bool { return each(data) })
}

// get asks for one object; each is called once when there is an answer.
func (c *conn) get(ctx context.Context, req *nl.NetlinkRequest, each func(data []byte)) error {
	return c.exchange(ctx, req, func(_ uint16, data []byte) bool { each(data); return true })
}

// change asks for a change and waits for the kernel's answer.
func (c *conn) change(ctx context.Context, req *nl.NetlinkRequest) error {
	req.Flags |= unix.NLM_F_ACK
	return c.exchange(ctx, req, func(uint16, []byte) bool { return true })
}

// exchange sends a request and reads until its end. It returns at the deadline of ctx, or after
// defaultTimeout when ctx has none.
func (c *conn) exchange(ctx context.Context, req *nl.NetlinkRequest, each func(kind uint16, data []byte) bool) error {
	release, err := c.bind(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := c.send(req.Serialize()); err != nil {
		return timely(ctx, err)
	}
	interrupted := false
	for {
		b, err := c.receive()
		if err != nil {
			return timely(ctx, err)
		}
		r, err := readReplies(b, req.Seq, each)
		if err != nil {
			return err
		}
		interrupted = interrupted || r.interrupted
		if r.done && interrupted {
			return errInterrupted
		}
		if r.done {
			return nil
		}
	}
}

// bind makes the socket's deadline that of ctx, and breaks off what it waits for when ctx ends.
func (c *conn) bind(ctx context.Context) (release func(), err error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(defaultTimeout)
	}
	if err := c.file.SetDeadline(deadline); err != nil {
		return nil, fmt.Errorf("rtnetlink socket: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.file.SetDeadline(time.Unix(1, 0)) })
	return func() { stop() }, nil
}

// timely says in the words of package context that time ran out.
func timely(ctx context.Context, err error) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("the kernel did not answer: %w", context.DeadlineExceeded)
}

func (c *conn) send(b []byte) error {
	var failed error
	err := c.raw.Write(func(fd uintptr) bool {
		failed = unix.Sendto(int(fd), b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		return failed != unix.EAGAIN
	})
	return errors.Join(err, failed)
}

// receive gives the next datagram of the kernel, valid until the next call. What others sent is
// passed over.
func (c *conn) receive() ([]byte, error) {
	for {
		n, from, err := c.receiveAny()
		if err != nil {
			return nil, err
		}
		if n > len(c.buf) {
			return nil, fmt.Errorf("rtnetlink datagram of %d bytes is larger than %d", n, len(c.buf))
		}
		if sender, ok := from.(*unix.SockaddrNetlink); ok && sender.Pid == 0 {
			c.datagrams++
			return c.buf[:n], nil
		}
	}
}

// receiveAny waits for a datagram; n is its whole length, also when it did not fit (MSG_TRUNC).
func (c *conn) receiveAny() (n int, from unix.Sockaddr, err error) {
	var failed error
	err = c.raw.Read(func(fd uintptr) bool {
		for {
			n, from, failed = unix.Recvfrom(int(fd), c.buf, unix.MSG_TRUNC)
			if failed != unix.EINTR {
				return failed != unix.EAGAIN
			}
		}
	})
	if err == nil {
		err = failed
	}
	return n, from, err
}
