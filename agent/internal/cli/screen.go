package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"vouch/agent/internal/state"
)

// clearScreen moves to the upper left corner and erases (ECMA-48 CUP, ED).
const clearScreen = "\x1b[H\x1b[2J"

// screen says how the output may look.
type screen struct {
	terminal bool
	colour   bool
	fd       int // of the terminal
}

// size gives the terminal's size as it is now; 0: not known.
func (s screen) size() (columns, rows int) {
	w, err := unix.IoctlGetWinsize(s.fd, unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return int(w.Col), int(w.Row)
}

// screenOf looks at the writer: colours only on a terminal that has them, and never with NO_COLOR
// (no-color.org).
func screenOf(w io.Writer) screen {
	if s, ok := w.(*sticky); ok {
		w = s.w
	}
	f, ok := w.(*os.File)
	if !ok {
		return screen{}
	}
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err != nil {
		return screen{}
	}
	return screen{terminal: true, colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb", fd: int(f.Fd())}
}

// A paint is the SGR code (ECMA-48) of one meaning.
type paint string

// The paints.
const (
	plain  paint = ""
	good   paint = "32"
	bad    paint = "31;1"
	warned paint = "33"
	faint  paint = "2"
	strong paint = "1"
)

func (p paint) on(s string, colour bool) string {
	if !colour || p == plain || s == "" {
		return s
	}
	return "\x1b[" + string(p) + "m" + s + "\x1b[0m"
}

// A cell is one field of a table. Its text is cleaned when it is printed.
type cell struct {
	text  string
	paint paint
}

func c(text string) cell                 { return cell{text: text} }
func painted(text string, p paint) cell  { return cell{text: text, paint: p} }
func heading(names ...string) (r []cell) { return paintedRow(faint, names...) }

func paintedRow(p paint, texts ...string) []cell {
	row := make([]cell, len(texts))
	for i, t := range texts {
		row[i] = painted(t, p)
	}
	return row
}

// table prints rows with aligned columns, two spaces apart.
func table(w io.Writer, indent string, colour bool, rows [][]cell) {
	var width []int
	for _, r := range rows {
		for i, f := range r {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], utf8.RuneCountInString(state.Clean(f.text)))
		}
	}
	for _, r := range rows {
		var b strings.Builder
		gap := 0
		for i, f := range r {
			text := state.Clean(f.text)
			if text != "" {
				b.WriteString(strings.Repeat(" ", gap) + f.paint.on(text, colour))
				gap = 0
			}
			gap += width[i] - utf8.RuneCountInString(text) + 2
		}
		fmt.Fprintln(w, indent+b.String())
	}
}

// printJSON prints v for programs, indented.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// span writes a duration in at most two units, as exactly as its size deserves.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = max(d, 0); {
	case d < 9950*time.Millisecond:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute-time.Second/2:
		return fmt.Sprintf("%.0fs", d.Seconds())
	case d < time.Hour:
		return two(d.Round(time.Second), time.Minute, "m", time.Second, "s")
	case d < 2*day:
		return two(d.Round(time.Minute), time.Hour, "h", time.Minute, "m")
	}
	return two(d.Round(time.Hour), day, "d", time.Hour, "h")
}

func two(d, big time.Duration, bigName string, small time.Duration, smallName string) string {
	s := fmt.Sprintf("%d%s", d/big, bigName)
	if rest := d % big / small; rest > 0 {
		s += fmt.Sprintf("%d%s", rest, smallName)
	}
	return s
}

// age is how long ago t was; "-" when it never was.
func age(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return span(now.Sub(t))
}

// clock writes t by the reader's clock, with the day when it is not today.
func clock(t, now time.Time) string {
	t = t.In(now.Location())
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}

// since writes when something began and how long ago: "since 12:00:01, 3m ago".
func since(t, now time.Time) string { return "since " + clock(t, now) + ", " + age(t, now) + " ago" }

// until writes when something ends and how far that is: "until 12:30:00, in 30m".
func until(t, now time.Time) string { return "until " + clock(t, now) + ", in " + span(t.Sub(now)) }
