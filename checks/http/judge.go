package http

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"vouch/checks"
	"vouch/checks/payload"
)

// wanted is what an answer must be like.
type wanted struct {
	status  Statuses
	headers map[string]*payload.Pattern // by canonical name
	body    *payload.Pattern            // nil: any
	most    int                         // how many bytes of the body are read
}

// kept is how much of a body must be kept to judge it, and for people.
func (w *wanted) kept() int {
	if w.body == nil {
		return min(w.most, keptBody)
	}
	return w.most
}

// judge gives nil, or what an answer is not like. The error is a *checks.Failure.
func (w *wanted) judge(ctx context.Context, a *answer) error {
	if !w.status.accepts(a.StatusCode) {
		return &checks.Failure{Reason: checks.ReasonStatus,
			Detail: fmt.Sprintf("status %s, want %s%s", a.status(), w.status, begins(a.body))}
	}
	for _, name := range slices.Sorted(maps.Keys(w.headers)) {
		if err := expectHeader(ctx, a, name, w.headers[name]); err != nil {
			return err
		}
	}
	switch {
	case a.broken != nil:
		return a.broken
	case w.body == nil:
		return nil
	}
	if found, err := w.body.Match(ctx, a.body); found || err != nil {
		return err
	}
	where := "the body"
	if len(a.body) >= w.most {
		where = fmt.Sprintf("the first %d bytes of the body", w.most)
	}
	return &checks.Failure{Reason: checks.ReasonMismatch,
		Detail: fmt.Sprintf("no match for %q in %s%s", w.body.String(), where, begins(a.body))}
}

// expectHeader wants one of a header's values to match.
func expectHeader(ctx context.Context, a *answer, name string, re *payload.Pattern) error {
	values := a.Header.Values(name)
	for _, value := range values {
		if found, err := re.Match(ctx, []byte(value)); found || err != nil {
			return err
		}
	}
	got := "there is none"
	if len(values) > 0 {
		got = "it is " + excerpt(strings.Join(values, ", "))
	}
	return &checks.Failure{Reason: checks.ReasonMismatch, Detail: fmt.Sprintf("no match for %q in header %s: %s", re.String(), name, got)}
}

// begins tells people how a body begins.
func begins(body []byte) string {
	if len(body) == 0 {
		return "; the body is empty"
	}
	return "; the body begins " + excerpt(string(body))
}

// excerpt quotes the beginning.
func excerpt(s string) string {
	const most = 60
	if len(s) > most {
		return strconv.Quote(strings.ToValidUTF8(s[:most], "")) + "…"
	}
	return strconv.Quote(s)
}
