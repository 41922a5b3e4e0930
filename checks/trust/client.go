package trust

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"vouch/checks"
	"vouch/checks/payload"
)

// A Client is the client's side of handshakes. It reads its files again when they have changed, so that a
// renewed certificate needs no reload. It may be used concurrently.
type Client struct {
	MinVersion uint16 // the oldest version that will do; not to be changed once in use

	spec Spec
	name string
	alpn []string

	mu    sync.Mutex
	under chan struct{} // a look at the files that has not come back yet, or nil
	stamp [3]stamp
	made  *tls.Config // of the last files that were of use
	err   error       // of the last look
}

// Config gives what crypto/tls needs, for the caller to keep but not to change. No session is resumed:
// each handshake is a whole one. A server that asks for a certificate gets the one that is configured, also
// if it names other authorities: its refusal then tells why.
//
// While files that were read before are of no use, as when they are being replaced, or are on a file system that
// hangs, what was read before goes on to be used. The error is a *checks.Failure of reason unknown: a file on this
// node that is of no use says nothing about the server.
func (c *Client) Config(ctx context.Context) (*tls.Config, error) {
	if c.spec.files() == "" && !c.spec.Verifies() {
		c.follow()
		return c.found()
	}
	look, old := c.look()
	if old {
		if made, _ := c.found(); made != nil {
			checks.Tracef(ctx, checks.Note, "the files for TLS do not answer: going on with what was read before")
			return made, nil
		}
	}
	if !comes(ctx, look) {
		return nil, &checks.Failure{Reason: checks.ReasonUnknown, Detail: "the file system of " + cmp.Or(c.spec.files(), "the system's authorities") + " does not answer"}
	}
	made, err := c.found()
	switch {
	case made == nil:
		return nil, &checks.Failure{Reason: checks.ReasonUnknown, Err: err}
	case err != nil:
		checks.Tracef(ctx, checks.Note, "%v: going on with what was read before", err)
	}
	return made, nil
}

// look begins to look at the files, unless that is under way already (old). It cannot be broken off, and so is in
// a goroutine of its own.
func (c *Client) look() (look chan struct{}, old bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.under != nil {
		return c.under, true
	}
	look = make(chan struct{})
	c.under = look
	go func() {
		defer close(look)
		c.follow()
	}()
	return look, false
}

// beyond is how long a look may go on when the check's time is over: on a busy machine this process may have had
// little of that time.
const beyond = 200 * time.Millisecond

// comes waits for a look, and says whether it has come back.
func comes(ctx context.Context, look chan struct{}) bool {
	select {
	case <-look:
		return true
	case <-ctx.Done():
	}
	last := time.NewTimer(beyond)
	defer last.Stop()
	select {
	case <-look:
		return true
	case <-last.C:
		return false
	}
}

// follow reads the files if they have changed.
func (c *Client) follow() {
	now := [3]stamp{stampOf(c.spec.CA), stampOf(c.spec.Cert), stampOf(c.spec.Key)}
	c.mu.Lock()
	old, same := c.made, c.made != nil && c.stamp == now
	c.mu.Unlock()
	same = same && (c.spec.CA != "" || !c.spec.Verifies() || isSystems(old))
	var made *tls.Config
	var err error
	if !same {
		made, err = c.read()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.under, c.err = nil, err
	if made != nil {
		c.made, c.stamp = made, now
	}
}

// isSystems says whether made trusts whom the system trusts by now.
func isSystems(made *tls.Config) bool {
	pool, _ := system.roots()
	return made.RootCAs == pool
}

func (c *Client) found() (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made, c.err
}

func (c *Client) read() (*tls.Config, error) {
	pool, err := c.spec.roots()
	if err != nil {
		return nil, err
	}
	pair, err := c.spec.pair()
	if err != nil {
		return nil, err
	}
	conf := &tls.Config{RootCAs: pool, ServerName: c.name, NextProtos: c.alpn, MinVersion: c.MinVersion,
		InsecureSkipVerify: !c.spec.Verifies()}
	if pair != nil {
		conf.Certificates = []tls.Certificate{*pair}
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair, nil }
	}
	return conf, nil
}

// A Conn is a connection whose handshake went well.
type Conn struct {
	*tls.Conn
	// Asked says that the server asked for a certificate. With TLS 1.3 it tells only after the handshake, in
	// what is read next, that it does not take the answer.
	Asked bool
}

// Handshake makes a connection secure, and judges the certificate. Conn needs a deadline; start is when the
// check began. It closes nothing unless ctx ends. The error is a *checks.Failure.
func (c *Client) Handshake(ctx context.Context, conn net.Conn, start time.Time) (*Conn, error) {
	shared, err := c.Config(ctx)
	if err != nil {
		return nil, err
	}
	out, conf := new(Conn), shared.Clone()
	conf.GetClientCertificate = func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		out.Asked = true
		return c.answer(ctx, info, shared.Certificates), nil
	}
	heard := &payload.Tap{Conn: conn}
	out.Conn = tls.Client(heard, conf)
	checks.Tracef(ctx, checks.Sent, "TLS handshake%s", c.offer(conn))
	if err := out.HandshakeContext(ctx); err != nil {
		c.TraceRefused(ctx, heard, err)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, &checks.Failure{Reason: checks.ReasonTLS, Detail: "the server closed the connection during the handshake"}
		}
		f := c.Failure(ctx, "no handshake within "+checks.Allowed(ctx, start), err)
		switch f.Reason {
		case checks.ReasonRefused:
			f.Detail = "broken off during the handshake"
		case checks.ReasonTimeout:
			f.Aside = progress(heard.Came())
		}
		return nil, f
	}
	state := out.ConnectionState()
	if checks.Traced(ctx) {
		checks.Tracef(ctx, checks.Got, "%s", Describe(state))
	}
	if f := c.Judge(state, time.Now()); f != nil {
		return nil, f
	}
	return out, nil
}

// offer tells what is asked for, of whom, and from where.
func (c *Client) offer(conn net.Conn) (s string) {
	if c.name != "" {
		s = " with " + c.name
	}
	if len(c.alpn) > 0 {
		s += ", offering " + strings.Join(c.alpn, ", ")
	}
	return s + ", to " + conn.RemoteAddr().String() + " from " + checks.From(conn)
}

// answer gives the certificate that a server asked for; an empty one stands for none. It is the one that is
// configured whether or not the server says that it would take it, so that its refusal tells why.
func (c *Client) answer(ctx context.Context, info *tls.CertificateRequestInfo, have []tls.Certificate) *tls.Certificate {
	if len(have) == 0 {
		checks.Tracef(ctx, checks.Note, "the server asks for a certificate; none is configured")
		return new(tls.Certificate)
	}
	checks.Tracef(ctx, checks.Sent, "the client's certificate %s, which the server asked for", c.spec.Cert)
	if err := info.SupportsCertificate(&have[0]); err != nil {
		checks.Tracef(ctx, checks.Note, "the server did not ask for such a one: %v", bare(err))
	}
	return &have[0]
}

// TraceRefused tells whoever looks on what came of a handshake that failed: the certificates, if they were not good enough,
// or else what was heard.
func (c *Client) TraceRefused(ctx context.Context, heard fmt.Stringer, err error) {
	if !checks.Traced(ctx) {
		return
	}
	var verify *tls.CertificateVerificationError
	if !errors.As(err, &verify) {
		checks.Tracef(ctx, checks.Got, "%s", heard)
		return
	}
	for _, cert := range verify.UnverifiedCertificates {
		checks.Tracef(ctx, checks.Got, "%s", describe(cert))
	}
}

// progress tells a server that hangs from one that stops midway.
func progress(came int) string {
	if came == 0 {
		return "nothing came back"
	}
	return fmt.Sprintf("it stopped midway, after %d bytes", came)
}
