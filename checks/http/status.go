package http

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"vouch/checks"
)

// Statuses are the status codes that count as an answer.
type Statuses struct {
	spans []span
	wrong []string // what was written that is none, as Go prints it
}

// A span is a range of codes, with its ends.
type span struct{ from, to int }

// UnmarshalTOML takes whatever was written, so that Validate can report it beside all else. One code or
// range may stand without a list.
func (s *Statuses) UnmarshalTOML(v any) error {
	*s = Statuses{}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, e := range list {
		text := fmt.Sprint(e)
		if r, ok := readSpan(text); ok {
			s.spans = append(s.spans, r)
		} else {
			s.wrong = append(s.wrong, text)
		}
	}
	if len(list) == 0 {
		s.wrong = []string{"[]"}
	}
	return nil
}

// MarshalTOML writes what UnmarshalTOML reads.
func (s Statuses) MarshalTOML() ([]byte, error) {
	words := make([]string, len(s.spans))
	for i, r := range s.spans {
		words[i] = strconv.Quote(r.String())
	}
	return []byte("[" + strings.Join(words, ", ") + "]"), nil
}

// String gives such as "200", "2xx" or "200-204".
func (r span) String() string {
	switch {
	case r.from == r.to:
		return strconv.Itoa(r.from)
	case r.from%100 == 0 && r.to == r.from+99:
		return strconv.Itoa(r.from/100) + "xx"
	}
	return fmt.Sprintf("%d-%d", r.from, r.to)
}

// readSpan reads "200", "2xx" or "200-299". Codes below 200 are never the last one of an answer.
func readSpan(s string) (span, bool) {
	if class, ok := strings.CutSuffix(strings.ToLower(s), "xx"); ok {
		n, err := strconv.Atoi(class)
		return span{n * 100, n*100 + 99}, err == nil && n >= 2 && n <= 5
	}
	low, high, ranged := strings.Cut(s, "-")
	if !ranged {
		high = low
	}
	from, err := strconv.Atoi(low)
	to, err2 := strconv.Atoi(high)
	return span{from, to}, err == nil && err2 == nil && from >= 200 && from <= to && to <= 599
}

func (s *Statuses) validate() (ps []checks.Problem) {
	for _, w := range s.wrong {
		ps = append(ps, checks.Problem{Key: "expect_status", What: "must be codes from 200 to 599, or ranges of them", Got: w,
			WayOut: `write such as expect_status = [200, "3xx", "400-404"]`})
	}
	return ps
}

// accepts says whether a code is among them.
func (s *Statuses) accepts(code int) bool {
	return slices.ContainsFunc(s.spans, func(r span) bool { return r.from <= code && code <= r.to })
}

// String gives them for people, such as "200, 3xx".
func (s Statuses) String() string {
	words := make([]string, len(s.spans))
	for i, r := range s.spans {
		words[i] = r.String()
	}
	return strings.Join(words, ", ")
}
