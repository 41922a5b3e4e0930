package control

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"vouch/agent/internal/state"
)

// pipes is a listener whose connections are pipes, which live on synctest's clock.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

func (p *pipes) dial(context.Context, string) (net.Conn, error) {
	here, there := net.Pipe()
	p.conns <- there
	return here, nil
}

// A quiet stream outlives every patience of the server and the client, for as long as both live.
func TestQuietStreamStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newFakeAgent()
		s := NewServer(Options{}, a)
		p := &pipes{make(chan net.Conn), make(chan struct{})}
		srv := &http.Server{Handler: s.routes(), ReadTimeout: readPatience, WriteTimeout: writePatience, ConnContext: withPeer}
		go func() { _ = srv.Serve(p) }()
		c := NewClient("pipe")
		c.dialer = p.dial
		got, ended := make(chan state.Event, 1), make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			ended <- c.Follow(ctx, 0, func(e state.Event) error { got <- e; return nil })
		}()
		select {
		case <-time.After(time.Hour):
		case err := <-ended:
			t.Fatalf("the stream ended: %v", err)
		}
		a.Add(state.Event{Text: "after an hour"})
		if e := <-got; e.Text != "after an hour" {
			t.Errorf("got %+v", e)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A client that opens a stream and does not read is dropped.
func TestDeafFollowerIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newFakeAgent()
		s := NewServer(Options{}, a)
		p := &pipes{make(chan net.Conn), make(chan struct{})}
		srv := &http.Server{Handler: s.routes(), WriteTimeout: writePatience, ConnContext: withPeer}
		go func() { _ = srv.Serve(p) }()
		conn, _ := p.dial(t.Context(), "")
		if _, err := io.WriteString(conn, "GET /v1/events?follow=1 HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if n := len(s.followers); n != 0 {
			t.Errorf("%d streams are still open", n)
		}
		_ = conn.Close()
		_ = srv.Close()
	})
}

func TestTooManyFollowersAreRefused(t *testing.T) {
	a := newFakeAgent()
	path, _ := serve(t, Options{}, a)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range followersMax {
		resp, err := NewClient(path).do(ctx, http.MethodGet, "/v1/events?follow=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
	}
	follow := func() error { return NewClient(path).Follow(t.Context(), 0, func(state.Event) error { return io.EOF }) }
	if err := follow(); err == nil || !strings.Contains(err.Error(), "64 streams are open already") {
		t.Errorf("got %v", err)
	}
	cancel()
	a.Add(state.Event{Text: "x"})
	within(t, "a place is free again", func() bool { return errors.Is(follow(), io.EOF) })
}
