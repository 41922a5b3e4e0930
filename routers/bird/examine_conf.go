package bird

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"vouch/routers/bird/include"
)

// A conf is what BIRD's configuration files say of static protocols and of what disables them. They may have been
// changed since BIRD read them, so they only ever add to what BIRD itself tells.
type conf struct {
	whole   bool // every file could be read
	path    string
	files   []string           // that were read
	statics map[string]*static // by name, protocols and templates
	ours    bool               // it includes a file of vouch's
	used    map[string]bool    // the words outside `disabled` statements of static protocols, and outside vouch's files
}

// A static is one static protocol, or a template of such.
type static struct {
	from     string   // its template
	disabled []string // the words of its `disabled` statements
}

// mostText bounds what is read.
const mostText = 16 << 20

// readConf reads the configuration at path with what it includes, but for the files that are vouch's own.
func readConf(path string, own ...string) conf {
	c := conf{whole: true, path: path, statics: map[string]*static{}, used: map[string]bool{}}
	left := mostText
	c.parse(c.tokens(path, own, &left, 0))
	return c
}

// token is a comment, a string, a quoted symbol, a word, or any other character that is no space.
var token = regexp.MustCompile(`(?s)#[^\n]*|/\*.*?\*/|"[^"\n]*"|'[^'\n]*'|[A-Za-z0-9_.:]+|\S`)

// tokens gives those of a file with those of what it includes in place.
func (c *conf) tokens(path string, own []string, left *int, depth int) []string {
	const deep = 8
	text, err := include.ReadFile(path)
	c.files = append(c.files, path)
	if *left -= len(text); err != nil || *left < 0 || depth > deep {
		c.whole = false
		return nil
	}
	var all []string
	for _, t := range token.FindAllString(string(text), -1) {
		included := len(all) > 0 && all[len(all)-1] == "include" && strings.HasPrefix(t, `"`)
		switch {
		case strings.HasPrefix(t, "#"), strings.HasPrefix(t, "/*"):
		case included:
			all = all[:len(all)-1]
			for _, file := range matching(filepath.Dir(path), strings.Trim(t, `"`)) {
				if isOne(file, own) {
					c.ours = true
				} else {
					all = append(all, c.tokens(file, own, left, depth+1)...)
				}
			}
		default:
			all = append(all, strings.Trim(t, "'"))
		}
	}
	return all
}

// isOne says that a file is one of others, by whatever path.
func isOne(file string, others []string) bool {
	info, err := os.Stat(file)
	return slices.ContainsFunc(others, func(other string) bool {
		same, err2 := os.Stat(other)
		return filepath.Clean(file) == filepath.Clean(other) || err == nil && err2 == nil && os.SameFile(info, same)
	})
}

// matching gives the files of an include statement in a file of directory dir.
func matching(dir, pattern string) []string {
	if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(dir, pattern)
	}
	if !strings.ContainsAny(pattern, "*?[") {
		return []string{pattern}
	}
	files, _ := filepath.Glob(pattern)
	return files
}

// parse notes the static protocols, and the words of all else.
func (c *conf) parse(ts []string) {
	for i := 0; i < len(ts); i++ {
		if (ts[i] != "protocol" && ts[i] != "template") || i+2 >= len(ts) || ts[i+1] != "static" {
			c.used[ts[i]] = true
			continue
		}
		s, name := &static{}, ""
		for i += 2; i < len(ts) && ts[i] != "{"; i++ {
			switch {
			case ts[i] == "from" && i+1 < len(ts):
				i++
				s.from = ts[i]
			default:
				name = ts[i]
			}
		}
		c.statics[name] = s
		i = c.block(s, ts, i)
	}
}

// block reads a protocol's block that begins at ts[i], and gives the place of its end.
func (c *conf) block(s *static, ts []string, i int) int {
	depth, first := 0, true // of a statement
	for ; i < len(ts); i++ {
		switch ts[i] {
		case "{":
			depth++
			first = true
		case "}":
			if depth--; depth == 0 {
				return i
			}
			first = true
		case ";":
			first = true
		case "disabled":
			if !first || depth != 1 {
				continue
			}
			for ; i < len(ts) && ts[i] != ";" && ts[i] != "}"; i++ {
				s.disabled = append(s.disabled, ts[i])
			}
			i--
		default:
			c.used[ts[i]] = true
			first = false
		}
	}
	return i
}

// heeds says that the files have a static protocol disabled by one of the symbols, itself or by its template.
func (c conf) heeds(protocol string, symbols ...string) bool {
	for n, name := 0, protocol; name != "" && n <= len(c.statics); n++ { // a protocol without a name is no template
		s := c.statics[name]
		switch {
		case s == nil:
			return false
		case s.says(symbols):
			return true
		}
		name = s.from
	}
	return false
}

// says whether its own block has it disabled by one of the symbols.
func (s static) says(symbols []string) bool {
	return slices.ContainsFunc(symbols, func(symbol string) bool { return symbol != "" && slices.Contains(s.disabled, symbol) })
}

// heedless says that the files certainly do not have a static protocol disabled by any of the symbols. Where a
// symbol is used in another way, such as in a filter, that is not certain.
func (c conf) heedless(protocol string, symbols ...string) bool {
	if s := c.statics[protocol]; !c.whole || s == nil {
		return false
	}
	if slices.ContainsFunc(symbols, func(s string) bool { return c.used[s] }) {
		return false
	}
	for n, name := 0, protocol; name != ""; n++ {
		s := c.statics[name]
		if s == nil || n > len(c.statics) || s.says(symbols) {
			return false
		}
		name = s.from
	}
	return true
}
