package payload

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Headers shows the headers of HTTP for a trace, each on a line of its own, and no more than 4 KiB of them. The
// values of those are left out whose name says that they may be secret, whoever sends them.
func Headers(h map[string][]string) string {
	const most = 4 << 10
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			if secret(name) {
				value = "…"
			}
			fmt.Fprintf(&b, "%s: %s\n", name, value)
		}
	}
	text := strings.TrimSuffix(b.String(), "\n")
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}

// secret says whether a header is likely to hold something secret. A challenge does not.
func secret(name string) bool {
	name = strings.ToLower(name)
	if strings.HasSuffix(name, "-authenticate") {
		return false
	}
	return slices.ContainsFunc([]string{"auth", "cookie", "token", "key", "secret", "password", "passwd", "signature", "session", "credential", "jwt"},
		func(s string) bool { return strings.Contains(name, s) })
}

// Clip cuts a text that a server sent, for a line that is read by people.
func Clip(s string) string {
	const most = 200
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
