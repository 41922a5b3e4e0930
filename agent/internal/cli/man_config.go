package cli

import (
	"regexp"
	"strings"
)

// The lines of the commented example.
var (
	exampleTable = regexp.MustCompile(`^#?(\[[a-z][a-z0-9_.]*\])$`)
	exampleKey   = regexp.MustCompile(`^(#?[a-z][a-z0-9_]* = .*?)(?:\s+# (.*))?$`)
	exampleMore  = regexp.MustCompile(`^\s+# (.*)$`)
)

// manConfig writes vouch.toml(5) from the example that has all keys, and from the shortest one.
func manConfig(example, minimal string) []byte {
	r := newRoff("vouch.toml", "5", "File Formats")
	r.macro("SH", "NAME")
	r.line("vouch.toml - what vouch watches, and which addresses it announces while all is well")
	r.macro("SH", "DESCRIPTION")
	head, tables := headOf(example)
	r.text(head)
	r.macro("SH", "TABLES AND KEYS")
	r.line("Tables and keys stand here as in the file that vouch config example prints.")
	r.tables(tables)
	r.macro("SH", "EXAMPLE")
	r.lines(strings.TrimSpace(minimal))
	r.macro("SH", "FILES")
	r.entry(defaultConfig, "Where it is read from, unless the option --config says otherwise.")
	r.macro("SH", "SEE ALSO")
	r.line("vouch(1)")
	return r.b.Bytes()
}

// headOf gives what the example says before its first table, without the marks of a comment, and the rest.
func headOf(example string) (head, rest string) {
	at := strings.Index(example, "\n[")
	if at < 0 {
		return uncomment(example), ""
	}
	return uncomment(example[:at]), example[at+1:]
}

func uncomment(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(strings.TrimPrefix(l, "#"), " ")
	}
	return strings.Join(lines, "\n")
}

// tables writes the tables, and the keys with what is said of them. A comment on lines of its own is for what
// comes after it.
func (r *roff) tables(s string) {
	key, means, comment := "", "", ""
	flush := func() {
		if key != "" {
			r.entry(key, means)
		}
		if comment != "" {
			r.macro("PP")
			r.text(comment)
		}
		key, means, comment = "", "", ""
	}
	for line := range strings.Lines(s) {
		line = strings.TrimRight(line, "\n")
		if m := exampleMore.FindStringSubmatch(line); m != nil && key != "" && comment == "" {
			means += " " + strings.TrimSpace(m[1])
			continue
		}
		if m := exampleTable.FindStringSubmatch(line); m != nil {
			about := comment
			comment = ""
			flush()
			r.macro("SS", m[1])
			r.text(about)
			continue
		}
		if m := exampleKey.FindStringSubmatch(line); m != nil {
			flush()
			key, means = m[1], m[2]
			continue
		}
		comment += uncomment(line) + "\n"
		comment = strings.TrimLeft(comment, "\n")
	}
	flush()
}
