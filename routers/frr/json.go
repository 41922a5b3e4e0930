package frr

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"vouch/routers"
)

// errNotConfigured says that the daemon runs, but not (yet) the protocol. FRR at boot is so for a
// while, and for long when its saved configuration was not taken.
var errNotConfigured = routers.Errorf(routers.ErrUnavailable, "not configured yet")

// decode reads exactly one JSON object. What is empty, cut, more than one object or led by anything
// else says nothing of the table, and is an error of class routers.ErrUnavailable; an empty object
// says that the table holds nothing. What into has no field for is passed over, see decodeWhole.
func decode(text string, into any) error {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return routers.Errorf(routers.ErrUnavailable, "an empty answer: is the protocol configured?")
	case strings.Contains(text, "is not enabled"):
		return fmt.Errorf("%w: %s", errNotConfigured, excerpt(text))
	case text[0] != '{':
		return routers.Errorf(routers.ErrUnavailable, "not JSON: %s", excerpt(text))
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return routers.Errorf(routers.ErrUnavailable, "broken JSON: %w: %s", err, excerpt(text))
	}
	return nil
}

// decodeWhole is decode into a struct that has fields for all of the answer's objects and arrays. One
// more may hold, under the name it has in another release, what is looked for, so that nothing can be
// said to be absent.
func decodeWhole(text string, into any) error {
	if err := decode(text, into); err != nil {
		return err
	}
	var members map[string]json.RawMessage
	if err := decode(text, &members); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(members)) {
		if v := members[key]; (v[0] == '{' || v[0] == '[') && !hasField(into, key) {
			return unknownShape(key)
		}
	}
	return nil
}

// hasField tells whether a struct has a field for a key, as encoding/json sees it.
func hasField(into any, key string) bool {
	t := reflect.TypeOf(into).Elem()
	for i := range t.NumField() {
		if strings.EqualFold(t.Field(i).Tag.Get("json"), key) {
			return true
		}
	}
	return false
}

// unknownShape says what of an answer is not as in the releases that are known.
func unknownShape(what string) error {
	return routers.Errorf(routers.ErrUnavailable, "the answer is of an unknown shape: %s (another release of FRR?)", what)
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
