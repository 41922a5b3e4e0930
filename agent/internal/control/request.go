package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"vouch/agent/internal/decide"
)

// A DrainRequest is the body of POST /v1/drain. At most one of For and Until is set; with neither,
// only a resume ends the drain.
type DrainRequest struct {
	Service string        `json:"service"`
	For     time.Duration `json:"for_ns,omitempty"`
	Until   time.Time     `json:"until,omitzero"`
	Reason  string        `json:"reason,omitempty"` // at most 500 bytes
}

// A ResumeRequest is the body of POST /v1/resume.
type ResumeRequest struct {
	Service string `json:"service"`
}

// errorReply is the body of every answer that is not 200.
type errorReply struct {
	Error string `json:"error"`
}

// badRequest is an error of the client's making.
type badRequest string

func (b badRequest) Error() string { return string(b) }

func badf(format string, args ...any) error { return badRequest(fmt.Sprintf(format, args...)) }

// decode reads a request's body strictly: one JSON object without keys that are not known.
func decode(r *http.Request, v any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if _, after := d.Token(); !errors.Is(after, io.EOF) {
			err = errors.New("there is more after the object")
		}
	}
	var long *http.MaxBytesError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &long):
		return fmt.Errorf("the request's body is longer than %d bytes: %w", long.Limit, err)
	}
	return badf("the request's body is not as it should be: %v", err)
}

// drain checks the request and makes it a Drain that begins at now.
func (q DrainRequest) drain(now time.Time, by string) (decide.Drain, error) {
	d := decide.Drain{Since: now, Until: q.Until, By: by, Reason: q.Reason}
	switch {
	case q.Service == "":
		return d, badf("service is missing: name the service to drain")
	case q.For != 0 && !q.Until.IsZero():
		return d, badf("for_ns and until are both given: leave one of them out")
	case q.For < 0:
		return d, badf("for_ns must be above 0 (got %d): a drain ends later than it begins", q.For)
	case !q.Until.IsZero() && !q.Until.After(now):
		return d, badf("until must be in the future (got %s, and it is %s here)", q.Until.Format(time.RFC3339), now.Format(time.RFC3339))
	case len(q.Reason) > reasonMax:
		return d, badf("reason is longer than %d bytes (got %d): say it shorter", reasonMax, len(q.Reason))
	}
	if q.For > 0 {
		d.Until = now.Add(q.For)
	}
	return d, nil
}
