package control

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vouch/agent/internal/state"
)

const nobody = 65534

func TestStatusAndEvents(t *testing.T) {
	a := newFakeAgent()
	a.Add(state.Event{Kind: state.KindStart, Text: "started"})
	a.Add(state.Event{Kind: state.KindReady, Text: "ready"})
	path, _ := serve(t, Options{}, a)
	c := NewClient(path)
	snap, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a.Snapshot(), snap); diff != "" {
		t.Error(diff)
	}
	for after, want := range map[uint64]int{0: 2, 1: 1, 2: 0} {
		es, err := c.Events(t.Context(), after)
		if err != nil || len(es) != want {
			t.Errorf("after %d: %d events, %v; want %d", after, len(es), err, want)
		}
	}
}

func TestRemovedSocketIsMadeAnew(t *testing.T) {
	path, _ := serve(t, Options{}, newFakeAgent())
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := NewClient(path).Status(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("still: %v", err)
		case <-tick.C:
		}
	}
}

func TestFollowGivesOldAndNewEventsInOrder(t *testing.T) {
	a := newFakeAgent()
	a.Add(state.Event{Text: "old"})
	path, stop := serve(t, Options{}, a)
	got := make(chan state.Event)
	ended := make(chan error, 1)
	go func() {
		ended <- NewClient(path).Follow(t.Context(), 0, func(e state.Event) error {
			got <- e
			return nil
		})
	}()
	if e := <-got; e.Text != "old" || e.Seq != 1 {
		t.Errorf("first came %+v", e)
	}
	for i := range uint64(200) {
		a.Touch()
		a.Add(state.Event{Text: "new"})
		if e := <-got; e.Seq != i+2 {
			t.Fatalf("got event %d, want %d", e.Seq, i+2)
		}
	}
	stop()
	if err := <-ended; !errors.Is(err, ErrNotRunning) || !strings.Contains(err.Error(), "ended the connection") {
		t.Errorf("the stream ended with %v", err)
	}
}

func TestFollowEndsWithItsContextAndItsReader(t *testing.T) {
	a := newFakeAgent()
	a.Add(state.Event{Text: "x"})
	path, _ := serve(t, Options{}, a)
	enough := errors.New("enough")
	if err := NewClient(path).Follow(t.Context(), 0, func(state.Event) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := NewClient(path).Follow(ctx, 0, func(state.Event) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestDrainAndResumeByRoot(t *testing.T) {
	a := newFakeAgent()
	path, _ := serve(t, Options{}, a)
	c := NewClient(path)
	before := time.Now()
	if err := c.Drain(t.Context(), DrainRequest{Service: "resolver", For: time.Minute, Reason: "kernel"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Resume(t.Context(), "resolver"); err != nil {
		t.Fatal(err)
	}
	d := a.drains[0]
	if d.By != "root" || d.Reason != "kernel" || d.Since.Before(before.Add(-time.Second)) || d.Until.Sub(d.Since) != time.Minute {
		t.Errorf("drained %+v", d)
	}
	if diff := cmp.Diff([]string{"root"}, a.resumed); diff != "" {
		t.Error(diff)
	}
}

func TestWhoMayChange(t *testing.T) {
	needRoot(t)
	a := newFakeAgent()
	path, _ := serve(t, Options{AdminGroup: "daemon"}, a)
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	daemon, err := groupID("daemon")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		uid, gid int
		groups   []int
		may      bool
	}{
		"a stranger":            {nobody, nobody, nil, false},
		"effective group":       {nobody, daemon, nil, true},
		"supplementary group":   {nobody, nobody, []int{1000, daemon}, true},
		"member by database":    {1, nobody, nil, true}, // user daemon
		"somebody without name": {54321, 54321, nil, false},
		"root without groups":   {0, 0, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			err := clientOf(t, path, c.uid, c.gid, c.groups...).Drain(t.Context(), DrainRequest{Service: "resolver"})
			switch {
			case c.may && err != nil:
				t.Errorf("refused: %v", err)
			case !c.may && !errors.Is(err, ErrDenied):
				t.Errorf("got %v, want a refusal", err)
			}
			if _, err := clientOf(t, path, c.uid, c.gid, c.groups...).Status(t.Context()); err != nil {
				t.Errorf("may not read: %v", err)
			}
		})
	}
	err = clientOf(t, path, nobody, nobody).Resume(t.Context(), "resolver")
	if want := "uid 65534 (nobody) may read but not change anything: join group daemon, or use sudo"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	err = clientOf(t, path, 54321, 54321).Drain(t.Context(), DrainRequest{Service: "resolver"})
	if err == nil || !strings.Contains(err.Error(), "uid 54321 (uid 54321)") {
		t.Errorf("got %v", err)
	}
}

func TestMayChangeTellsTheWayOut(t *testing.T) {
	for name, c := range map[string]struct {
		p     peer
		group string
		want  string
	}{
		"own user":       {peer{uid: 1000}, "", ""},
		"no group set":   {peer{uid: nobody}, "", "uid 65534 (nobody) may read but not change anything: use sudo, or set control.admin_group in the configuration"},
		"group missing":  {peer{uid: nobody}, "no-such-group", `uid 65534 (nobody) may read but not change anything: control.admin_group: there is no group "no-such-group": create it (groupadd --system no-such-group) or name another`},
		"unknown peer":   {peer{uid: 0, err: errors.New("gone")}, "", "who asks could not be told, so nothing is changed: gone"},
		"not from serve": {peerOf(t.Context()), "", "who asks could not be told, so nothing is changed: not a connection of the control socket"},
	} {
		err := mayChange(c.p, c.group, 1000)
		if got := text(err); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// post sends a raw body and gives status and answer.
func post(t *testing.T, path, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://vouch"+url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := NewClient(path).http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b := make([]byte, 4096)
	n, _ := resp.Body.Read(b)
	return resp.StatusCode, string(b[:n])
}

func TestBadRequests(t *testing.T) {
	a := newFakeAgent()
	path, _ := serve(t, Options{}, a)
	for _, c := range []struct {
		method, url, body string
		code              int
		want              string
	}{
		{"POST", "/v1/drain", `{`, 400, "the request's body is not as it should be: unexpected EOF"},
		{"POST", "/v1/drain", ``, 400, "the request's body is not as it should be: EOF"},
		{"POST", "/v1/drain", `{"service":"resolver","fro_ns":5}`, 400, `unknown field \"fro_ns\"`},
		{"POST", "/v1/drain", `{"service":"resolver"} {}`, 400, "there is more after the object"},
		{"POST", "/v1/drain", `{}`, 400, "service is missing"},
		{"POST", "/v1/drain", `{"service":"resolver","for_ns":-1}`, 400, "for_ns must be above 0 (got -1)"},
		{"POST", "/v1/drain", `{"service":"resolver","for_ns":1,"until":"2999-01-01T00:00:00Z"}`, 400, "leave one of them out"},
		{"POST", "/v1/drain", `{"service":"resolver","until":"2001-01-01T00:00:00Z"}`, 400, "until must be in the future (got 2001-01-01T00:00:00Z"},
		{"POST", "/v1/drain", `{"service":"resolver","reason":"` + strings.Repeat("x", 501) + `"}`, 400, "reason is longer than 500 bytes (got 501)"},
		{"POST", "/v1/drain", `{"service":"` + strings.Repeat("x", bodyMax) + `"}`, 413, "longer than 16384 bytes"},
		{"POST", "/v1/drain", `{"service":"web"}`, 404, `there is no service \"web\"; there are: resolver`},
		{"POST", "/v1/resume", `{"service":"web"}`, 404, `there is no service \"web\"; there are: resolver`},
		{"POST", "/v1/resume", `{}`, 400, "service is missing"},
		{"POST", "/v1/resume", `{"service":"resolver","by":"alice"}`, 400, `unknown field \"by\"`},
		{"GET", "/v1/events?after=-1", "", 400, `after must be the number of an event (got \"-1\")`},
		{"GET", "/v1/events?follow=yes", "", 400, `follow must be 0 or 1 (got \"yes\")`},
		{"GET", "/v2/status", "", 404, "there is no GET /v2/status: the agent answers GET /v1/status"},
	} {
		code, got := post(t, path, c.method, c.url, c.body)
		if code != c.code || !strings.Contains(got, c.want) || !strings.HasPrefix(got, `{"error":"`) {
			t.Errorf("%s %s %.60s: %d %s; want %d %s", c.method, c.url, c.body, code, got, c.code, c.want)
		}
	}
	if len(a.drains)+len(a.resumed) != 0 {
		t.Errorf("something was changed: %v %v", a.drains, a.resumed)
	}
}

func TestClientErrors(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "none.sock")
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dead := deadSocket(t, filepath.Join(dir, "dead.sock"))
	for name, c := range map[string]struct{ path, want string }{
		"missing":  {path, "vouch is not running (no agent answers at " + path + "): start it with systemctl start vouch, or vouch run"},
		"dead":     {dead, "vouch is not running (no agent answers at " + dead + "): start it with systemctl start vouch, or vouch run"},
		"file":     {file, "vouch is not running (no agent answers at " + file + "): start it with systemctl start vouch, or vouch run"},
		"not path": {file + "/x", "vouch is not running: " + file + "/x is not a control socket: see control.socket in the configuration, or --socket"},
	} {
		_, err := NewClient(c.path).Status(t.Context())
		if !errors.Is(err, ErrNotRunning) || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// Nobody is told to join root's group; and who wants to change something is told of the key that lets them.
func TestNobodyIsSentIntoRootsGroup(t *testing.T) {
	needRoot(t)
	ask := func(o Options, change bool, groups ...int) error {
		path, _ := serve(t, o, newFakeAgent())
		c := clientOf(t, path, nobody, nobody, groups...)
		if change {
			return c.Drain(t.Context(), DrainRequest{Service: "resolver"})
		}
		_, err := c.Status(t.Context())
		return err
	}
	daemon, _ := groupID("daemon")
	for what, tc := range map[string]struct {
		err  error
		want string
	}{
		"look":                     {ask(Options{Group: "root"}, false), "use sudo, or let [control] group in the configuration name a group that "},
		"change":                   {ask(Options{Group: "root"}, true), "use sudo, or let [control] group and admin_group in the configuration name a group that "},
		"change, a group may look": {ask(Options{Group: "daemon"}, true), "use sudo, or let [control] group and admin_group in the configuration name a group that "},
		"root is the admin group":  {ask(Options{Group: "daemon", AdminGroup: "root"}, true, daemon), "use sudo, or let control.admin_group name another group than root"},
	} {
		if !errors.Is(tc.err, ErrDenied) || !strings.Contains(text(tc.err), tc.want) || strings.Contains(text(tc.err), "join group") {
			t.Errorf("%s: %v, want %s", what, tc.err, tc.want)
		}
	}
}

func TestClientIsToldWhichGroupOpensTheSocket(t *testing.T) {
	needRoot(t)
	path, _ := serve(t, Options{Group: "daemon"}, newFakeAgent())
	_, err := clientOf(t, path, nobody, nobody).Status(t.Context())
	if !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), "join group daemon (usermod -aG daemon ") {
		t.Errorf("got %v", err)
	}
	daemon, _ := groupID("daemon")
	if _, err := clientOf(t, path, nobody, nobody, daemon).Status(t.Context()); err != nil {
		t.Errorf("a member of the group may not read: %v", err)
	}
}

// An agent that is stopped (SIGSTOP) has a socket which the kernel still connects.
func TestClientGivesUpOnAHungAgent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hung.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	start := time.Now()
	_, err = NewClient(path).Status(t.Context())
	if took := time.Since(start); took < 2*time.Second || took > time.Minute {
		t.Errorf("gave up after %s, want 3s", took)
	}
	if !errors.Is(err, ErrNoAnswer) || !strings.Contains(err.Error(), "listens but is silent for 3s") {
		t.Errorf("got %v", err)
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("acting as other users needs root")
		}
		t.Skip("NOT TESTED: acting as other users needs root")
	}
}
