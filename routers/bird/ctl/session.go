package ctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"vouch/routers"
)

// maxPatience bounds a reply that keeps coming, as a multiple of the session's timeout.
const maxPatience = 10

// A Session is one connection to BIRD's control socket. It is not safe for concurrent use. After an error
// of Do or Wait it is of no more use and says so.
type Session struct {
	conn    net.Conn
	name    string // the socket, for errors
	timeout time.Duration
	version Version
	reader  *reader
	broken  error
}

// Dial connects to the socket and reads the banner. timeout is how long BIRD may be silent, in each later
// question too. Errors are of class routers.ErrUnavailable and of the system's (syscall.ENOENT,
// ECONNREFUSED, EACCES, EAGAIN), and name the way out.
func Dial(ctx context.Context, path string, timeout time.Duration) (*Session, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, dialError(ctx, path, err)
	}
	return greet(ctx, conn, path, timeout)
}

// greet makes a session of a connection, which it closes when there is no proper banner.
func greet(ctx context.Context, conn net.Conn, name string, timeout time.Duration) (*Session, error) {
	s := &Session{conn: conn, name: name, timeout: timeout}
	s.reader = newReader(conn, " ")
	banner, err := s.await(ctx)
	if err == nil {
		s.version, err = parseBanner(banner.Lines[len(banner.Lines)-1].Text)
		if err != nil {
			err = routers.Errorf(routers.ErrUnavailable, "%s: %w: is it bird's control socket?", name, err)
		}
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

// Version is what the banner says.
func (s *Session) Version() Version { return s.version }

// Close ends the session.
func (s *Session) Close() error { return s.conn.Close() }

// Do puts one command and reads its reply. Refusals are replies too, see Reply.Refused. The error is of
// class routers.ErrUnavailable, or routers.ErrRefused for what Check does not let pass; it is io.EOF too
// when the daemon had closed the session before it answered anything.
func (s *Session) Do(ctx context.Context, command string) (Reply, error) {
	if err := Check(command); err != nil {
		return Reply{}, err
	}
	if s.broken != nil {
		return Reply{}, s.broken
	}
	if err := s.send(ctx, command); err != nil {
		return Reply{}, err
	}
	return s.await(ctx)
}

// Restrict gives up the right to change anything, for the rest of the session.
func (s *Session) Restrict(ctx context.Context) error {
	const command = "restrict"
	reply, err := s.Do(ctx, command)
	if err != nil {
		return err
	}
	return reply.Refused(command)
}

// Wait returns nil once the daemon closes the session, as it does when it ends, and an error when ctx ends
// first or the daemon speaks unasked. The session is of no use afterwards.
func (s *Session) Wait(ctx context.Context) error {
	_ = s.conn.SetReadDeadline(time.Time{})
	defer s.interruptible(ctx)()
	_, err := s.conn.Read(make([]byte, 1))
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case err == nil:
		err = routers.Errorf(routers.ErrUnavailable, "%s: spoke unasked", s.name)
	case closed(err):
		err = nil
	default:
		err = routers.Errorf(routers.ErrUnavailable, "%s: %w", s.name, cause(err))
	}
	s.broken = routers.Errorf(routers.ErrUnavailable, "%s: the session has ended", s.name)
	return err
}

func (s *Session) send(ctx context.Context, command string) error {
	_ = s.conn.SetWriteDeadline(time.Now().Add(s.timeout))
	defer s.interruptible(ctx)()
	if _, err := s.conn.Write([]byte(command + "\n")); err != nil {
		return s.fail(ctx, err)
	}
	return nil
}

// await reads one reply: it may come in parts, none of which may be late, and has a bound as a whole.
func (s *Session) await(ctx context.Context) (Reply, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, maxPatience*s.timeout, fmt.Errorf("its reply went on for %v", maxPatience*s.timeout))
	defer cancel()
	defer s.interruptible(ctx)()
	s.reader.r.Reset(patient{ctx, s})
	reply, err := s.reader.reply()
	if err == nil && s.reader.r.Buffered() > 0 {
		err = fmt.Errorf("%w: there is more behind the reply", errGarbage)
	}
	if err != nil {
		return Reply{}, s.fail(ctx, err)
	}
	return reply, nil
}

// interruptible has reads and writes end with ctx, until the func it gives is called.
func (s *Session) interruptible(ctx context.Context) func() {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		s.conn.SetDeadline(time.Unix(1, 0))
	})
	return func() {
		if !stop() {
			<-done
		}
	}
}

// fail breaks the session, and says why in a class.
func (s *Session) fail(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		err = routers.Errorf(errors.Join(routers.ErrUnavailable, ctx.Err()), "%s: had not answered yet: %w", s.name, context.Cause(ctx))
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = routers.Errorf(errors.Join(routers.ErrUnavailable, err),
			"%s: no answer for %v: bird hangs, or reads a large configuration", s.name, s.timeout)
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = routers.Errorf(errors.Join(routers.ErrUnavailable, err), "%s: closed in the middle of a reply", s.name)
	case closed(err):
		err = routers.Errorf(errors.Join(routers.ErrUnavailable, io.EOF), "%s: closed by bird, which may have ended", s.name)
	default:
		err = routers.Errorf(routers.ErrUnavailable, "%s: %w", s.name, cause(err))
	}
	s.broken = err
	s.conn.Close()
	return err
}

// closed tells whether the other side is gone.
func closed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// patient gives each read of a session a deadline of its own.
type patient struct {
	ctx context.Context
	s   *Session
}

// Read reads from the connection.
func (p patient) Read(b []byte) (int, error) {
	_ = p.s.conn.SetReadDeadline(time.Now().Add(p.s.timeout))
	if err := p.ctx.Err(); err != nil { // the deadline that came with it was just put off
		return 0, err
	}
	return p.s.conn.Read(b)
}

// SetTimeout changes how long BIRD may be silent in the questions that follow.
func (s *Session) SetTimeout(timeout time.Duration) { s.timeout = timeout }
