package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"strconv"
	"syscall"
	"time"

	"vouch/agent/internal/state"
)

const (
	// callPatience bounds one call; the agent answers from memory.
	callPatience = 3 * time.Second
	// streamPatience bounds the silence on a stream, which carries something every heartbeat.
	streamPatience = 3 * heartbeat
	// answerMax is the longest answer read, in bytes: a snapshot of many thousand prefixes fits.
	answerMax = 64 << 20
)

// The classes of a Client's errors, found with errors.Is.
var (
	// ErrNotRunning: no agent listens.
	ErrNotRunning = errors.New("vouch is not running")
	// ErrNoAnswer: an agent listens and does not answer.
	ErrNoAnswer = errors.New("vouch does not answer")
	// ErrDenied: the socket may not be opened, or the agent does not allow the change.
	ErrDenied = errors.New("permission denied")
	// ErrUnknownService: there is no service of that name.
	ErrUnknownService = errors.New("unknown service")
)

// A refusal is the agent's own error: its text, and the class it is of, if any.
type refusal struct {
	text  string
	class error
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.class }

// A Client asks the agent at one socket. It may be used concurrently.
type Client struct {
	path   string
	dialer func(ctx context.Context, path string) (net.Conn, error)
	http   http.Client
}

// NewClient gives a Client for the control socket at path. It connects when it is used.
func NewClient(path string) *Client {
	c := &Client{path: path, dialer: dialUnix}
	c.http.Transport = &http.Transport{DialContext: c.dial, DisableKeepAlives: true}
	return c
}

// Status gives the agent's snapshot.
func (c *Client) Status(ctx context.Context) (*state.Snapshot, error) {
	snap := new(state.Snapshot)
	if err := c.call(ctx, http.MethodGet, "/v1/status", nil, snap); err != nil {
		return nil, err
	}
	return snap, nil
}

// Events gives the kept events numbered above after, oldest first.
func (c *Client) Events(ctx context.Context, after uint64) ([]state.Event, error) {
	var events []state.Event
	err := c.call(ctx, http.MethodGet, "/v1/events?after="+strconv.FormatUint(after, 10), nil, &events)
	return events, err
}

// Drain withdraws a service.
func (c *Client) Drain(ctx context.Context, q DrainRequest) error {
	return c.call(ctx, http.MethodPost, "/v1/drain", q, nil)
}

// Resume ends a service's drain.
func (c *Client) Resume(ctx context.Context, service string) error {
	return c.call(ctx, http.MethodPost, "/v1/resume", ResumeRequest{Service: service}, nil)
}

// Follow calls each with the events numbered above after, those kept and those to come, until ctx
// ends, each fails, or the agent goes away. It never returns nil.
func (c *Client) Follow(ctx context.Context, after uint64, each func(state.Event) error) error {
	q := url.Values{"follow": {"1"}, "after": {strconv.FormatUint(after, 10)}}
	resp, err := c.do(ctx, http.MethodGet, "/v1/events?"+q.Encode(), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return c.explain(ctx, err)
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var e state.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("the agent at %s sent an event that cannot be read: %w", c.path, err)
		}
		if err := each(e); err != nil {
			return err
		}
	}
}

func (c *Client) call(ctx context.Context, method, path string, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	resp, err := c.do(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, answerMax))
	switch {
	case err != nil:
		return c.explain(ctx, err)
	case answer == nil:
		return nil
	}
	if err := json.Unmarshal(b, answer); err != nil {
		return fmt.Errorf("the agent at %s sent an answer that cannot be read: %w", c.path, err)
	}
	return nil
}

// do sends one request and gives a response whose status is 200.
func (c *Client) do(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://vouch"+path, content)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	switch {
	case err == nil:
	case ctx.Err() == nil && errors.Is(err, fs.ErrPermission):
		return nil, c.denied(method == http.MethodPost)
	default:
		return nil, c.explain(ctx, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, refused(resp)
}

func refused(resp *http.Response) error {
	var e errorReply
	b, _ := io.ReadAll(io.LimitReader(resp.Body, bodyMax))
	if json.Unmarshal(b, &e) != nil || e.Error == "" {
		e.Error = "the agent answered " + resp.Status
	}
	switch resp.StatusCode {
	case http.StatusForbidden:
		return &refusal{e.Error, ErrDenied}
	case http.StatusNotFound:
		return &refusal{e.Error, ErrUnknownService}
	}
	return &refusal{e.Error, nil}
}

func dialUnix(ctx context.Context, path string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", path)
}

func (c *Client) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	conn, err := c.dialer(ctx, c.path)
	if err != nil {
		return nil, err
	}
	return patient{conn}, nil
}

// patient is a connection whose every read and write has a deadline.
type patient struct{ net.Conn }

func (p patient) Read(b []byte) (int, error) {
	if err := p.SetReadDeadline(time.Now().Add(streamPatience)); err != nil {
		return 0, err
	}
	return p.Conn.Read(b)
}

func (p patient) Write(b []byte) (int, error) {
	if err := p.SetWriteDeadline(time.Now().Add(callPatience)); err != nil {
		return 0, err
	}
	return p.Conn.Write(b)
}

// explain turns a failure to talk to the agent into what it means and what to do.
func (c *Client) explain(ctx context.Context, err error) error {
	var timeout net.Error
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case errors.Is(err, syscall.EAGAIN), errors.Is(ctx.Err(), context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("%w (the agent at %s listens but is silent for %s): it may be hung, see systemctl status vouch", ErrNoAnswer, c.path, callPatience)
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w (no agent answers at %s): start it with systemctl start vouch, or vouch run", ErrNotRunning, c.path)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return fmt.Errorf("%w any more (the agent at %s ended the connection): see systemctl status vouch", ErrNotRunning, c.path)
	case errors.Is(err, syscall.ENOTSOCK), errors.Is(err, syscall.EPROTOTYPE), errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%w: %s is not a control socket: see control.socket in the configuration, or --socket", ErrNotRunning, c.path)
	}
	return fmt.Errorf("ask the agent at %s: %w", c.path, err)
}

// denied says what would open the socket to whoever may not, and let them change something if that is what was
// asked for. Nobody is sent into root's group, which opens much more.
func (c *Client) denied(change bool) error {
	group := c.group()
	switch {
	case change:
		return fmt.Errorf("%w at %s: use sudo, or let [control] group and admin_group in the configuration name a group that %s is in", ErrDenied, c.path, login())
	case group == "":
		return fmt.Errorf("%w at %s: use sudo, or let [control] group in the configuration name a group that %s is in", ErrDenied, c.path, login())
	}
	return fmt.Errorf("%w at %s: join group %s (usermod -aG %s %s, then log in again), or use sudo", ErrDenied, c.path, group, group, login())
}

// group gives the group that may open the socket; empty: it cannot be told, or is root's.
func (c *Client) group() string {
	st, err := os.Stat(c.path)
	if err != nil {
		return ""
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || sys.Gid == 0 {
		return ""
	}
	group := strconv.FormatUint(uint64(sys.Gid), 10)
	if g, err := user.LookupGroupId(group); err == nil {
		return g.Name
	}
	return group
}

func login() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "USER"
}
