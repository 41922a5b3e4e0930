package ctl

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// A Version is a release of BIRD. The zero Version is unknown.
type Version struct {
	Major, Minor, Patch int
}

// String gives "2.0.12".
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }

// AtLeast tells whether v is that release or a later one.
func (v Version) AtLeast(major, minor, patch int) bool {
	return cmp.Or(cmp.Compare(v.Major, major), cmp.Compare(v.Minor, minor), cmp.Compare(v.Patch, patch)) >= 0
}

// parseBanner reads "BIRD 2.0.12 ready.". What a distribution or a developer adds to the number is dropped.
func parseBanner(text string) (Version, error) {
	words := strings.Fields(text)
	var v Version
	if len(words) < 2 || words[0] != "BIRD" {
		return v, fmt.Errorf("greets with %.80q, not as bird does", text)
	}
	parts := strings.SplitN(strings.TrimPrefix(words[1], "v"), ".", 3)
	for i, field := range []*int{&v.Major, &v.Minor, &v.Patch} {
		if i == len(parts) {
			break
		}
		digits := parts[i][:len(parts[i])-len(strings.TrimLeft(parts[i], "0123456789"))]
		*field, _ = strconv.Atoi(digits)
	}
	if v.Major == 0 {
		return v, fmt.Errorf("greets with %.80q, which names no version", text)
	}
	return v, nil
}
