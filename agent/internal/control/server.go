// Package control is the agent's control socket: HTTP and JSON on a unix socket, the server in the
// agent and the client of the commands. Whoever may connect may read; changing needs root, the
// agent's own user or the admin group, told by SO_PEERCRED.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"vouch/agent/internal/decide"
	"vouch/agent/internal/state"
)

const (
	headerPatience = 5 * time.Second  // to send a request's header
	readPatience   = 10 * time.Second // to send a whole request
	writePatience  = 10 * time.Second // to take an answer, or one piece of a stream
	idlePatience   = 5 * time.Second  // between two requests on one connection
	lookEvery      = 2 * time.Second  // whether the socket is still at its path
	stopPatience   = time.Second      // for requests under way when the server stops
	heartbeat      = 5 * time.Second  // between empty lines on a quiet stream
	bodyMax        = 16 << 10         // bytes of a request's body
	headerMax      = 8 << 10          // bytes of a request's header
	reasonMax      = 500              // bytes of a drain's reason
	followersMax   = 64               // streams at the same time
)

// An Agent is what the server serves. Its methods are called concurrently and return soon.
type Agent interface {
	// Snapshot gives what is known now.
	Snapshot() *state.Snapshot
	// Events gives the kept events numbered above after, oldest first.
	Events(after uint64) []state.Event
	// Drain withdraws a service. An error with a method Unknown() bool that says true means that
	// there is no such service.
	Drain(ctx context.Context, service string, d decide.Drain) error
	// Resume ends a drain.
	Resume(ctx context.Context, service, by string) error
	// Changed gives a channel that is closed at the next new snapshot or event.
	Changed() <-chan struct{}
}

// Options say where the server listens and who may do what.
type Options struct {
	Path       string       // of the socket
	Group      string       // may connect; empty: the agent's own
	AdminGroup string       // may change things, beside root and the agent's own user; empty: nobody else
	Log        *slog.Logger // nil: nothing is logged
}

// A Server answers on the control socket.
type Server struct {
	opts      Options
	agent     Agent
	followers chan struct{}
	now       func() time.Time
	socket    *socket
}

// NewServer gives a Server that touches nothing until Listen.
func NewServer(o Options, a Agent) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{opts: o, agent: a, followers: make(chan struct{}, followersMax), now: time.Now}
}

// Listen takes the socket's path: an agent that runs there keeps it and is named in the error, a
// dead one's socket is replaced, and anything else at the path is left alone. After a nil error
// Serve or Close must be called.
func (s *Server) Listen() error {
	sock, err := listen(s.opts.Path, s.opts.Group)
	s.socket = sock
	return err
}

// Close gives up what Listen took, without serving.
func (s *Server) Close() error {
	if s.socket == nil {
		return nil
	}
	err := s.socket.Close()
	s.socket = nil
	return err
}

// Serve answers until ctx ends. It then ends the streams, gives requests under way a second, and
// removes the socket if it is still its own. A socket that somebody else removed is made anew. It
// returns nil unless the socket broke; called again after that, it listens anew.
func (s *Server) Serve(ctx context.Context) error {
	for {
		if s.socket == nil {
			if err := s.Listen(); err != nil {
				return err
			}
		}
		lost, err := s.serve(ctx)
		if err != nil {
			err = fmt.Errorf("control socket %s: %w", s.opts.Path, err)
		}
		if err = errors.Join(err, s.Close()); err != nil || !lost {
			return err
		}
		s.opts.Log.Warn("the control socket was removed by something else, and is made anew", "reason", s.opts.Path)
	}
}

// serve answers on the socket until ctx ends, or until it is lost.
func (s *Server) serve(ctx context.Context) (lost bool, err error) {
	srv := &http.Server{
		Handler:           s.routes(),
		ReadHeaderTimeout: headerPatience,
		ReadTimeout:       readPatience,
		WriteTimeout:      writePatience,
		IdleTimeout:       idlePatience,
		MaxHeaderBytes:    headerMax,
		ErrorLog:          slog.NewLogLogger(s.opts.Log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       withPeer,
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(s.socket.listener) }()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for !lost {
		select {
		case err := <-served:
			return false, err
		case <-look.C:
			lost = !s.socket.mine()
			continue
		case <-ctx.Done():
		}
		break
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer cancel()
	if srv.Shutdown(stopping) != nil {
		_ = srv.Close()
	}
	<-served
	return lost, nil
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", s.status)
	mux.HandleFunc("GET /v1/events", s.events)
	mux.HandleFunc("POST /v1/drain", s.change(s.drain))
	mux.HandleFunc("POST /v1/resume", s.change(s.resume))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, http.StatusNotFound, fmt.Errorf("there is no %s %s: the agent answers GET /v1/status, GET /v1/events, POST /v1/drain and POST /v1/resume", r.Method, r.URL.Path))
	})
	return mux
}

func (s *Server) status(w http.ResponseWriter, _ *http.Request) { reply(w, s.agent.Snapshot()) }

// change wraps what alters something: only those who may get through, by name.
func (s *Server) change(do func(r *http.Request, by string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p := peerOf(r.Context())
		if err := mayChange(p, s.opts.AdminGroup, os.Geteuid()); err != nil {
			s.opts.Log.Warn("refused a change", "path", r.URL.Path, "err", err)
			fail(w, http.StatusForbidden, err)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, bodyMax)
		if err := do(r, p.name()); err != nil {
			fail(w, statusOf(err), err)
			return
		}
		reply(w, struct{}{})
	}
}

func (s *Server) drain(r *http.Request, by string) error {
	var q DrainRequest
	if err := decode(r, &q); err != nil {
		return err
	}
	d, err := q.drain(s.now(), by)
	if err != nil {
		return err
	}
	return s.agent.Drain(r.Context(), q.Service, d)
}

func (s *Server) resume(r *http.Request, by string) error {
	var q ResumeRequest
	if err := decode(r, &q); err != nil {
		return err
	}
	if q.Service == "" {
		return badRequest("service is missing: name the service to resume")
	}
	return s.agent.Resume(r.Context(), q.Service, by)
}

// statusOf gives the HTTP status of an error.
func statusOf(err error) int {
	var unknown interface{ Unknown() bool }
	var bad badRequest
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &unknown) && unknown.Unknown():
		return http.StatusNotFound
	case errors.As(err, &long):
		return http.StatusRequestEntityTooLarge
	case errors.As(err, &bad):
		return http.StatusBadRequest
	}
	return http.StatusConflict
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client has gone: there is nobody to tell
}

func fail(w http.ResponseWriter, code int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(errorReply{Error: err.Error()})
}
