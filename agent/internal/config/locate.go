package config

import (
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// A place is where something is written: line and column start at 1, the column counts bytes as
// the TOML library's positions do. raw is the value as written, empty for a table.
type place struct {
	line, col int
	raw       string
}

// places maps a path, as toml.Key.String writes it, to its place: tables by their header, keys by
// the key. The third element of an array is found as the array's path followed by "[2]". A path
// that is only implied, such as service by [service.resolver], is found where it is first implied.
type places map[string]place

// locate finds the places of all keys in a text that the TOML library has accepted. The library's
// own metadata holds no positions. It never fails: in any other text it finds what it can.
func locate(text string) places {
	s := scanner{text: withoutMark(text), line: 1, found: places{}, explicit: map[string]bool{}}
	s.document()
	return s.found
}

// A scanner walks over a text once.
type scanner struct {
	text      string
	pos       int
	line      int // of pos
	lineStart int // offset of the first byte of that line
	table     toml.Key
	found     places
	explicit  map[string]bool // paths that are named, not only implied
}

// withoutMark takes off what some editors write at the start of a text, as the TOML library does.
func withoutMark(text string) string {
	for _, mark := range []string{"\xff\xfe", "\xfe\xff", "\xef\xbb\xbf"} {
		if rest, ok := strings.CutPrefix(text, mark); ok {
			return rest
		}
	}
	return text
}

func (s *scanner) document() {
	for {
		s.skipBlank()
		if s.pos >= len(s.text) {
			return
		}
		before := s.pos
		if s.peek() == '[' {
			s.header()
		} else {
			s.pair(s.table)
		}
		if s.pos == before { // a text that is no TOML: go on behind it
			s.next()
		}
	}
}

// header reads [a.b] or [[a.b]].
func (s *scanner) header() {
	at := s.here()
	for s.take("[") {
	}
	key := s.key()
	s.skipSpace()
	for s.take("]") {
	}
	s.table = key
	s.record(key, at)
}

// pair reads key = value; the key is below the given table.
func (s *scanner) pair(table toml.Key) {
	at := s.here()
	key := s.key()
	s.skipSpace()
	if !s.take("=") {
		return
	}
	s.skipSpace()
	path := join(table, key...)
	first := s.record(path, at)
	at.raw = s.value(path, path.String())
	if first {
		s.found[path.String()] = at
	}
}

// record notes a place for a path and, where none is known, for the paths that it implies. The
// first explicit mention counts: an array of tables stands where its first table does. It says
// whether this was the first.
func (s *scanner) record(path toml.Key, at place) bool {
	for i := len(path) - 1; i > 0; i-- {
		name := path[:i].String()
		if s.found[name].line > 0 { // and so are those before it
			break
		}
		s.found[name] = at
	}
	name := path.String()
	if s.explicit[name] {
		return false
	}
	s.explicit[name] = true
	s.found[name] = at
	return true
}

// value reads one value and gives it as written. Keys within are below path. Where the value is an
// array, its elements are recorded under the given name, unless that is empty.
func (s *scanner) value(path toml.Key, name string) string {
	from := s.pos
	switch s.peek() {
	case '[':
		s.array(path, name)
	case '{':
		s.inlineTable(path)
	case '"', '\'':
		s.str()
	default:
		s.scalar()
	}
	return strings.TrimRight(s.text[from:s.pos], " \t\r")
}

// scalar reads a number, a boolean or a date, which may hold a space.
func (s *scanner) scalar() {
	for s.pos < len(s.text) && !strings.ContainsRune(",]}#\n", rune(s.peek())) {
		s.next()
	}
}

func (s *scanner) array(path toml.Key, name string) {
	s.next()
	for i := 0; ; i++ {
		s.skipBlank()
		if s.pos >= len(s.text) || s.take("]") {
			return
		}
		at, before := s.here(), s.pos
		at.raw = s.value(path, "")
		if element := name + "[" + strconv.Itoa(i) + "]"; name != "" && s.found[element].line == 0 {
			s.found[element] = at
		}
		s.skipBlank()
		if !s.take(",") && s.pos == before {
			s.next()
		}
	}
}

func (s *scanner) inlineTable(path toml.Key) {
	s.next()
	for {
		s.skipBlank()
		if s.pos >= len(s.text) || s.take("}") {
			return
		}
		before := s.pos
		s.pair(path)
		s.skipBlank()
		if !s.take(",") && s.pos == before {
			s.next()
		}
	}
}

// key reads a dotted key.
func (s *scanner) key() toml.Key {
	var key toml.Key
	for {
		s.skipSpace()
		key = append(key, s.keyPart())
		s.skipSpace()
		if !s.take(".") {
			return key
		}
	}
}

func (s *scanner) keyPart() string {
	from := s.pos
	if c := s.peek(); c == '"' || c == '\'' {
		s.str()
		return unquote(s.text[from:s.pos])
	}
	for s.pos < len(s.text) && !strings.ContainsRune(" \t\r\n.=[]{},#\"'", rune(s.peek())) {
		s.next()
	}
	return s.text[from:s.pos]
}

// unquote gives what a quoted key stands for; the library knows the escapes.
func unquote(raw string) string {
	var v struct{ K string }
	if _, err := toml.Decode("K = "+raw, &v); err != nil {
		return raw
	}
	return v.K
}

// str reads a string of any of the four forms.
func (s *scanner) str() {
	quote := s.text[s.pos : s.pos+1]
	if s.take(strings.Repeat(quote, 3)) {
		s.until(strings.Repeat(quote, 3), quote == `"`)
		for i := 0; i < 2 && s.take(quote); i++ { // two quotes may stand right before the closing three
		}
		return
	}
	s.next()
	s.until(quote, quote == `"`)
}

// until reads up to and with the closing quotes.
func (s *scanner) until(closing string, escapes bool) {
	for s.pos < len(s.text) && !s.take(closing) {
		if len(closing) == 1 && s.peek() == '\n' { // no TOML: the rest is better understood from here
			return
		}
		if escapes && s.peek() == '\\' {
			s.next()
		}
		s.next()
	}
}

// skipSpace skips blanks within a line.
func (s *scanner) skipSpace() {
	for c := s.peek(); c == ' ' || c == '\t'; c = s.peek() {
		s.next()
	}
}

// skipBlank skips blanks, line ends and comments.
func (s *scanner) skipBlank() {
	for s.pos < len(s.text) {
		switch s.peek() {
		case ' ', '\t', '\r', '\n':
			s.next()
		case '#':
			for s.pos < len(s.text) && s.peek() != '\n' {
				s.next()
			}
		default:
			return
		}
	}
}

// peek gives the next byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.pos >= len(s.text) {
		return 0
	}
	return s.text[s.pos]
}

// next moves on by one byte.
func (s *scanner) next() {
	if s.pos >= len(s.text) {
		return
	}
	if s.text[s.pos] == '\n' {
		s.line++
		s.lineStart = s.pos + 1
	}
	s.pos++
}

// take moves behind the given text when it comes next. The text holds no line end.
func (s *scanner) take(text string) bool {
	if !strings.HasPrefix(s.text[s.pos:], text) {
		return false
	}
	s.pos += len(text)
	return true
}

func (s *scanner) here() place {
	return place{line: s.line, col: s.pos - s.lineStart + 1}
}

// join gives a path below another one, sharing no memory with it.
func join(path toml.Key, below ...string) toml.Key {
	return append(append(make(toml.Key, 0, len(path)+len(below)), path...), below...)
}
