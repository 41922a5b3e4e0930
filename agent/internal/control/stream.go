package control

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"vouch/agent/internal/state"
)

// events answers GET /v1/events: the kept events above ?after=N as a list or, with ?follow=1, as
// they come, one JSON object on each line, with an empty line now and then on a quiet stream.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	var after uint64
	if v := q.Get("after"); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			fail(w, http.StatusBadRequest, badf("after must be the number of an event (got %q)", v))
			return
		}
		after = n
	}
	switch v := q.Get("follow"); v {
	case "", "0":
		reply(w, append([]state.Event{}, s.agent.Events(after)...))
	case "1":
		s.follow(w, r, after)
	default:
		fail(w, http.StatusBadRequest, badf("follow must be 0 or 1 (got %q)", v))
	}
}

func (s *Server) follow(w http.ResponseWriter, r *http.Request, after uint64) {
	select {
	case s.followers <- struct{}{}:
		defer func() { <-s.followers }()
	default:
		fail(w, http.StatusServiceUnavailable, fmt.Errorf("%d streams are open already: end one of them", followersMax))
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	first := true
	for {
		changed := s.agent.Changed() // taken before reading, so that nothing falls between
		events := s.agent.Events(after)
		if len(events) > 0 {
			after = events[len(events)-1].Seq
		}
		if (first || len(events) > 0) && !send(w, events) {
			return
		}
		first = false
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		case <-beat.C:
			if !send(w, nil) {
				return
			}
		}
	}
}

// send writes the events, or an empty line when there are none, and says whether the client took it.
func send(w http.ResponseWriter, events []state.Event) bool {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, e := range events {
		if enc.Encode(e) != nil {
			return false
		}
	}
	if b.Len() == 0 {
		b.WriteByte('\n')
	}
	c := http.NewResponseController(w)
	if c.SetWriteDeadline(time.Now().Add(writePatience)) != nil { // the server's counts from the request
		return false
	}
	_, err := w.Write(b.Bytes())
	return err == nil && c.Flush() == nil
}
