package command

import (
	"context"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A pipe is one stream of a program's output, and what is kept of it.
type pipe struct {
	kept     *capped
	from, to *os.File
	done     chan struct{} // closed when the reading has ended
	whole    bool          // its end was read; once done is closed
}

func newPipe(kept *capped) (*pipe, error) {
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &pipe{kept: kept, from: from, to: to, done: make(chan struct{})}, nil
}

// start reads what comes, once a program has its own end. Finish waits for it.
func (p *pipe) start() {
	p.to.Close()
	go func() {
		defer close(p.done)
		_, err := io.Copy(p.kept, p.from)
		p.whole = err == nil
	}()
}

// drop lets go of a pipe that was not started.
func (p *pipe) drop() {
	p.to.Close()
	p.from.Close()
}

// finish takes what was written by now, however late this process is to read it, and reads no more.
func (p *pipe) finish() {
	_ = p.from.SetReadDeadline(time.Unix(1, 0))
	<-p.done
	if !p.whole {
		p.whole = p.drain()
	}
	p.from.Close()
}

// drain takes what the pipe holds, and tells whether its end came after that.
func (p *pipe) drain() (ended bool) {
	_ = p.from.SetReadDeadline(time.Time{})
	raw, err := p.from.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Read(func(fd uintptr) bool {
		left, _ := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0) // more than that was written later, by another
		buf := make([]byte, 4<<10)
		for left >= 0 && !ended {
			n, err := unix.Read(int(fd), buf)
			switch {
			case err == unix.EINTR:
				continue
			case err != nil:
				return true
			}
			_, _ = p.kept.Write(buf[:n])
			left, ended = left-n, n == 0
		}
		return true
	})
	return ended
}

// settle waits until the streams of a program that has ended have ended too, which others may hold, but not
// for long, and not beyond ctx. It tells whether they had.
func settle(ctx context.Context, streams []*pipe) (whole bool) {
	patience, cancel := context.WithTimeout(ctx, pipeDelay)
	defer cancel()
	whole = true
	for _, p := range streams {
		select {
		case <-p.done:
		case <-patience.Done():
		}
		p.finish()
		whole = whole && p.whole
	}
	return whole && ctx.Err() == nil // otherwise the kill may have ended them
}
