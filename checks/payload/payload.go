// Package payload is what checks that send bytes and expect others have in common: how those are written,
// and how they are shown.
package payload

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"vouch/checks"
)

// A Field is a value that is written under one of two keys: as text, or in hexadecimal under the key with
// "_hex" added, for what is no UTF-8.
type Field struct {
	Key       string // that of the text
	Text, Hex string
	Most      int // bytes
}

// Bytes gives what is written; nil for nothing, or if it is wrong.
func (f Field) Bytes() []byte {
	if f.Text != "" {
		return []byte(f.Text)
	}
	b, err := hex.DecodeString(joined(f.Hex))
	if err != nil || len(b) == 0 {
		return nil
	}
	return b
}

// Problems says what is wrong with it.
func (f Field) Problems() []checks.Problem {
	key := f.Key + "_hex"
	if f.Text != "" && f.Hex != "" {
		return []checks.Problem{{Key: key, Got: f.Hex, What: "has no effect beside " + f.Key, WayOut: "remove one of them"}}
	}
	if _, err := hex.DecodeString(joined(f.Hex)); err != nil {
		return []checks.Problem{{Key: key, Got: f.Hex, What: "must be pairs of hexadecimal digits", WayOut: `write such as "0d 0a"`}}
	}
	if f.Hex != "" && joined(f.Hex) == "" {
		return []checks.Problem{{Key: key, Got: strconv.Quote(f.Hex), What: "has no byte in it", WayOut: `write such as "0d 0a", or remove it`}}
	}
	if f.Text != "" {
		key = f.Key
	}
	if n := len(f.Bytes()); n > f.Most {
		return []checks.Problem{{Key: key, What: fmt.Sprintf("is of %d bytes, more than the %d there may be", n, f.Most), WayOut: "shorten it"}}
	}
	return nil
}

// joined takes the blanks out, which may stand anywhere.
func joined(s string) string { return strings.Join(strings.Fields(s), "") }

// Excerpt shows the beginning of b in one line: quoted if it is text, else in hexadecimal.
func Excerpt(b []byte) string {
	const most = 60
	head, more := b[:min(len(b), most)], ""
	if len(b) > most {
		more = "…"
	}
	if readable(head) {
		return strconv.Quote(string(head)) + more
	}
	return fmt.Sprintf("% x", head) + more
}

// Dump shows b for a trace: its size and its first 4 KiB, text line by line, with what ends each.
func Dump(b []byte) string {
	const most = 4 << 10
	return dump(b[:min(len(b), most)], len(b), len(b) > most)
}

// dump shows the head of so many bytes, and whether it is cut.
func dump(head []byte, all int, cut bool) string {
	const wide = 32
	var lines []string
	if readable(head) {
		for line := range strings.SplitAfterSeq(string(head), "\n") {
			lines = append(lines, strconv.Quote(line))
		}
		if last := len(lines) - 1; last > 0 && lines[last] == `""` {
			lines = lines[:last]
		}
	} else {
		for row := range slices.Chunk(head, wide) {
			lines = append(lines, fmt.Sprintf("% x", row))
		}
	}
	if cut {
		lines = append(lines, "…")
	}
	sep := " "
	if len(lines) > 1 {
		sep = "\n"
	}
	return fmt.Sprintf("%d bytes:%s%s", all, sep, strings.Join(lines, "\n"))
}

// readable says whether b is text without control characters; a rune may be cut at its end.
func readable(b []byte) bool {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && utf8.FullRune(b) || !unicode.IsPrint(r) && !unicode.IsSpace(r) {
			return false
		}
		b = b[n:]
	}
	return true
}
