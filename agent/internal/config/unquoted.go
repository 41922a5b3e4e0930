package config

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
)

// unquoted gives the values of a text that lack their quotes, where the mistake that the library
// stopped at, on the given line, is such a one: who forgets the quotes once forgets them throughout.
func unquoted(file, text string, line int) Problems {
	var ps Problems
	here := false
	lines := strings.Split(withoutMark(text), "\n")
	for name, at := range locate(text) {
		what, wayOut := bare(at.raw)
		if what == "" {
			continue
		}
		inList := strings.HasSuffix(name, "]")
		if inList { // an element goes by the list's name
			name = name[:strings.LastIndexByte(name, '[')]
		}
		if e := endpoint(name[strings.LastIndexByte(name, '.')+1:], at.raw, inList, lines[at.line-1][at.col-1:]); e != "" {
			wayOut = `write "` + e + `"`
		}
		here = here || at.line == line
		ps = append(ps, Problem{File: file, Line: at.line, Col: at.col, Key: name, What: what, Got: shorten(at.raw), WayOut: wayOut})
	}
	if !here {
		return nil
	}
	return ps
}

var (
	// bareForm is what text without quotes can be, as against half a string, a list or a table.
	bareForm = regexp.MustCompile(`^[^"'\[\]{}=,\\\x00-\x1f\x7f]+$`)
	// numberForm is what was meant as a number, though it may be none.
	numberForm = regexp.MustCompile(`^[-+0-9._ ]+$`)
	truth      = map[string]string{"true": "true", "yes": "true", "on": "true", "false": "false", "no": "false", "off": "false"}
)

// portForm is what stands behind an address in brackets.
var portForm = regexp.MustCompile(`^\]:[0-9]+`)

// endpoint gives an IPv6 address without quotes in the brackets that a port needs, and with its port: those it
// has seem to be of a list. It gives "" for all else; rest is the line from the value on.
func endpoint(key, raw string, inList bool, rest string) string {
	if a, err := netip.ParseAddr(raw); err != nil || !a.Is6() {
		return ""
	}
	port := portForm.FindString(strings.TrimPrefix(rest, raw))
	switch {
	case inList && port != "":
		return "[" + raw + port
	case !slices.Contains([]string{"server", "serial_from", "connect"}, key):
		return ""
	}
	i := strings.LastIndexByte(raw, ':')
	if _, err := netip.ParseAddrPort("[" + raw[:i] + "]" + raw[i:]); err == nil && !inList {
		return "[" + raw[:i] + "]" + raw[i:]
	}
	return "[" + raw + "]"
}

// bare tells what is wrong with a value as written that is text without quotes, and the way out.
// It gives "" for any other value.
func bare(raw string) (what, wayOut string) {
	word := strings.Trim(raw, "“”„‟‘’‚‛«»`")
	_, err := netip.ParseAddr(word)
	switch {
	case !utf8.ValidString(raw), !bareForm.MatchString(word), err != nil && numberForm.MatchString(word):
		return "", ""
	case word != raw:
		return "must be in straight quotes", `write "` + word + `"`
	}
	if _, err := toml.Decode("K = "+raw, &map[string]any{}); err == nil {
		return "", ""
	}
	if t, ok := truth[strings.ToLower(word)]; ok {
		return "must be true, false or text in quotes", `write ` + t + `, or "` + word + `" for text`
	}
	if d := respelled(word); d != "" {
		word = d
	}
	return "must be in quotes", `write "` + shorten(word) + `"`
}
