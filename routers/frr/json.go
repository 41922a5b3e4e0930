package frr

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"vouch/routers"
)

// errNotConfigured says that the daemon runs, but not (yet) the protocol. FRR at boot is so for a
// while, and for long when its saved configuration was not taken.
var errNotConfigured = fmt.Errorf("%w: not configured yet", routers.ErrUnavailable)

// decode reads exactly one JSON object. What is empty, cut, more than one object or led by anything
// else says nothing of the table, and is an error of class routers.ErrUnavailable; an empty object
// says that the table holds nothing.
func decode(text string, into any) error {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return fmt.Errorf("%w: an empty answer: is the protocol configured?", routers.ErrUnavailable)
	case strings.Contains(text, "is not enabled"):
		return fmt.Errorf("%w: %s", errNotConfigured, excerpt(text))
	case text[0] != '{':
		return fmt.Errorf("%w: not JSON: %s", routers.ErrUnavailable, excerpt(text))
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("%w: broken JSON: %w: %s", routers.ErrUnavailable, err, excerpt(text))
	}
	return nil
}

// excerpt quotes the beginning of a text.
func excerpt(text string) string {
	const most = 80
	if len(text) > most {
		return fmt.Sprintf("%.*q and %d bytes more", most, text, len(text)-most)
	}
	return fmt.Sprintf("%q", text)
}

// A list is a JSON array, or an object whose values are the elements: FRR 10 has the first where 8.4
// has the second.
type list[T any] []T

// UnmarshalJSON reads either form.
func (l *list[T]) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '[' {
		return json.Unmarshal(b, (*[]T)(l))
	}
	var m map[string]T
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	for _, v := range m {
		*l = append(*l, v)
	}
	return nil
}

// A mask is a prefix length, written as a number or as a netmask.
type mask int

// UnmarshalJSON reads either form.
func (m *mask) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, (*int)(m)) == nil {
		return nil
	}
	var a netip.Addr
	if err := json.Unmarshal(b, &a); err != nil || !a.Is4() {
		return fmt.Errorf("%s is not a netmask", b)
	}
	ones, bits := net.IPMask(a.AsSlice()).Size()
	if bits == 0 {
		return fmt.Errorf("%s is not a netmask", b)
	}
	*m = mask(ones)
	return nil
}
