package cli

import (
	"regexp"
	"strings"
)

// fit cuts a text to a terminal of that size (0: not known, nothing is cut): long lines at their
// ends, and what does not fit from the bottom, so that what comes first stays visible. The last row
// is left free for the cursor.
func fit(text string, columns, rows int) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if room := max(rows-1, 1); rows > 0 && len(lines) > room {
		hidden := len(lines) - (room - 1)
		lines = append(lines[:room-1:room-1], "… "+count(hidden, "more line", "more lines"))
	}
	if columns > 0 {
		for i, l := range lines {
			lines[i] = cut(l, columns)
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// glyph is one character, or one SGR sequence, which takes no room.
var glyph = regexp.MustCompile(`\x1b\[[0-9;]*m|.`)

// cut shortens a line to width characters, of which the last is an ellipsis then.
func cut(line string, width int) string {
	var b strings.Builder
	room, coloured, end := width, false, 0 // end: of b, where one more character leaves no room for the ellipsis
	for _, g := range glyph.FindAllString(line, -1) {
		sgr := strings.HasPrefix(g, "\x1b")
		if !sgr && room == 0 {
			reset := ""
			if coloured {
				reset = "\x1b[0m"
			}
			return b.String()[:end] + "…" + reset
		}
		if !sgr {
			if room--; room == 0 {
				end = b.Len()
			}
		} else if room > 0 {
			coloured = g != "\x1b[0m"
		}
		b.WriteString(g)
	}
	return line
}
