package detect

import (
	"context"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/bird"
	"vouch/routers/frr"
	"vouch/routers/lab"
)

var (
	v4 = netip.MustParsePrefix("10.53.53.53/32")
	v6 = netip.MustParsePrefix("fd00:53::53/128")
)

const (
	smallFRR  = "hostname node\n"
	smallBIRD = "router id 10.0.0.1;\nprotocol device { }\n"
)

// unhurried is what a daemon has for an answer on a busy machine, where it does not hang.
const unhurried = 10 * time.Second

func init() { askTime = unhurried }

// A host is a node on which daemons come and go, and what is to be found there.
type host struct {
	t       *testing.T
	node    *lab.Node
	options Options
}

func newHost(t *testing.T, releases ...lab.Release) *host {
	t.Helper()
	node, err := lab.Open(t, releases...).Node("node")
	if err != nil {
		t.Fatal(err)
	}
	return &host{t, node, Options{
		FRR:  frr.Options{SocketDir: filepath.Join(node.Dir(), "frr"), Timeout: unhurried},
		BIRD: bird.Options{Timeout: unhurried, Socket: filepath.Join(node.Dir(), "bird", "bird.ctl"), Socket6: filepath.Join(node.Dir(), "bird", "bird6.ctl")},
	}}
}

func (h *host) frr(r lab.Release, daemons ...string) *lab.FRR {
	h.t.Helper()
	f, err := h.node.FRRFrom(within(h.t), r, smallFRR, daemons...)
	if err != nil {
		h.t.Fatal(err)
	}
	return f
}

func (h *host) bird(r lab.Release) *lab.BIRD {
	h.t.Helper()
	b, err := h.node.BIRD(within(h.t), r, smallBIRD)
	if err != nil {
		h.t.Fatal(err)
	}
	return b
}

// look looks inside the node.
func (h *host) look() (frr, bird Found) {
	h.t.Helper()
	var fs []Found
	_ = h.node.Do(func() error { fs = Look(within(h.t), h.options); return nil })
	if len(fs) != 2 || fs[0].Daemon != "frr" || fs[1].Daemon != "bird" {
		h.t.Fatalf("found %+v", fs)
	}
	return fs[0], fs[1]
}

// observe reads with r inside the node.
func (h *host) observe(r *Router) (os []routers.Observation, err error) {
	_ = h.node.Do(func() error {
		os, err = r.Observe(within(h.t), []netip.Prefix{v4, v6})
		return nil
	})
	return os, err
}

// drives reads with r, and holds what it drives then against want, the beginning of its name.
func (h *host) drives(when string, r *Router, want string) {
	h.t.Helper()
	_, err := h.observe(r)
	if got := r.String(); !strings.HasPrefix(got, want) {
		h.t.Errorf("%s: it drives %q, want %q (%v)", when, got, want, err)
	}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// socket finds one by the end of its path.
func socket(t *testing.T, f Found, name string) Socket {
	t.Helper()
	i := slices.IndexFunc(f.Sockets, func(s Socket) bool { return strings.HasSuffix(s.Path, "/"+name) })
	if i < 0 {
		t.Fatalf("%s was not looked at: %+v", name, f.Sockets)
	}
	return f.Sockets[i]
}

// later lets the time pass after which another daemon may be driven.
func later(t *testing.T, r *Router) {
	t.Helper()
	if r.gone.IsZero() {
		t.Error("that the daemon has gone is not noticed")
	}
	r.gone = r.gone.Add(-takeover)
}

func version(t *testing.T, r lab.Release) string {
	t.Helper()
	v, err := r.Version(t.Context())
	must(t, err)
	return v
}
