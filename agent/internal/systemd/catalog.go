package systemd

import (
	"fmt"
	"strings"
)

// A CatalogEntry explains one kind of event in the journal's message catalog: "journalctl -x" shows it
// below each message of that kind. Subject is one line; @FIELD@ in it and in Text stands for that field
// of the message.
type CatalogEntry struct {
	Kind    string
	Subject string
	Text    []string // paragraphs
}

// Catalog gives the entries in the form of systemd's message catalog files (systemd 252), each under
// its kind's MessageID.
func Catalog(entries []CatalogEntry) string {
	var b strings.Builder
	b.WriteString("# What vouch's messages mean, for \"journalctl -x\".\n")
	for _, e := range entries {
		fmt.Fprintf(&b, "\n-- %s\nSubject: %s\nDefined-By: vouch\nDocumentation: man:vouch(1)\n\n%s\n",
			MessageID(e.Kind), e.Subject, strings.Join(wrapped(e.Text), "\n\n"))
	}
	return b.String()
}

// wrapped breaks the lines of paragraphs: the journal shows them as they stand.
func wrapped(paragraphs []string) (out []string) {
	const width = 76
	for _, p := range paragraphs {
		var b strings.Builder
		column := 0
		for _, word := range strings.Fields(p) {
			switch {
			case column == 0:
			case column+1+len(word) > width:
				b.WriteByte('\n')
				column = 0
			default:
				b.WriteByte(' ')
				column++
			}
			b.WriteString(word)
			column += len(word)
		}
		out = append(out, b.String())
	}
	return out
}
