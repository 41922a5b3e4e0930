package cli

import (
	"bytes"
	"strings"
)

// A roff is a manual page in the making, in the macros of man(7). It has no date, so that the same program
// always gives the same page.
type roff struct{ b bytes.Buffer }

// newRoff begins the page of that name in that section of the manual.
func newRoff(name, section, manual string) *roff {
	r := &roff{}
	r.macro("TH", strings.ToUpper(name), section, "", "vouch", manual)
	return r
}

// macro writes one with its arguments.
func (r *roff) macro(name string, args ...string) {
	r.b.WriteString("." + name)
	for _, a := range args {
		r.b.WriteString(` "` + escapeRoff(a) + `"`)
	}
	r.b.WriteByte('\n')
}

// text writes paragraphs as help texts have them: an empty line parts them, and indented lines stay lines.
func (r *roff) text(s string) {
	for i, block := range blocks(s) {
		if i > 0 {
			r.macro("PP")
		}
		if block[0] == ' ' || block[0] == '\t' {
			r.lines(block)
			continue
		}
		for line := range strings.SplitSeq(block, "\n") {
			r.line(line)
		}
	}
}

// lines writes text that keeps its line ends, indented.
func (r *roff) lines(s string) {
	r.macro("RS", "4")
	r.macro("nf")
	for line := range strings.SplitSeq(s, "\n") {
		r.line(line)
	}
	r.macro("fi")
	r.macro("RE")
}

// line writes one, which the first character must not make a request of.
func (r *roff) line(s string) {
	s = escapeRoff(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, `\(aq`) {
		s = `\&` + s
	}
	r.b.WriteString(s + "\n")
}

// entry writes a term and what it means.
func (r *roff) entry(term, means string) {
	r.macro("TP")
	r.macro("B", term)
	if means == "" {
		means = " "
	}
	r.line(means)
}

// roffSpecial are what troff would take for something else, or would set as another character.
var roffSpecial = strings.NewReplacer(`\`, `\e`, `-`, `\-`, `'`, `\(aq`, `"`, `\(dq`, "`", "\\(ga", `^`, `\(ha`, `~`, `\(ti`)

func escapeRoff(s string) string { return roffSpecial.Replace(s) }

// blocks parts a text at its empty lines, and indented lines from others; what indented lines have in common goes.
func blocks(s string) []string {
	var out []string
	fresh, was := true, false
	for line := range strings.SplitSeq(strings.Trim(s, "\n"), "\n") {
		indented := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
		switch {
		case strings.TrimSpace(line) == "":
			fresh = true
			continue
		case fresh || indented != was:
			out = append(out, line)
		default:
			out[len(out)-1] += "\n" + line
		}
		fresh, was = false, indented
	}
	return out
}
