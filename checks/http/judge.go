package http

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"vouch/checks"
)

// wanted is what an answer must be like.
type wanted struct {
	status  Statuses
	headers map[string]*regexp.Regexp // by canonical name
	body    *regexp.Regexp            // nil: any
	most    int                       // how many bytes of the body are read
}

// kept is how much of a body must be kept to judge it, and for people.
func (w *wanted) kept() int {
	if w.body == nil {
		return min(w.most, keptBody)
	}
	return w.most
}

// judge gives nil, or what an answer is not like.
func (w *wanted) judge(a *answer) *checks.Failure {
	if !w.status.accepts(a.StatusCode) {
		return &checks.Failure{Reason: checks.ReasonStatus,
			Detail: fmt.Sprintf("status %s, want %s (%s)%s", a.Status, w.status, a.how, begins(a.body))}
	}
	for _, name := range slices.Sorted(maps.Keys(w.headers)) {
		if f := expectHeader(a, name, w.headers[name]); f != nil {
			return f
		}
	}
	switch {
	case a.broken != nil:
		return a.broken
	case w.body == nil || w.body.Match(a.body):
		return nil
	}
	where := "the body"
	if len(a.body) >= w.most {
		where = fmt.Sprintf("the first %d bytes of the body", w.most)
	}
	return &checks.Failure{Reason: checks.ReasonMismatch,
		Detail: fmt.Sprintf("no match for %q in %s (%s)%s", w.body, where, a.how, begins(a.body))}
}

// expectHeader wants one of a header's values to match.
func expectHeader(a *answer, name string, re *regexp.Regexp) *checks.Failure {
	values := a.Header.Values(name)
	if slices.ContainsFunc(values, re.MatchString) {
		return nil
	}
	got := "there is none"
	if len(values) > 0 {
		got = "it is " + excerpt(strings.Join(values, ", "))
	}
	return &checks.Failure{Reason: checks.ReasonMismatch, Detail: fmt.Sprintf("no match for %q in header %s (%s): %s", re, name, a.how, got)}
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
