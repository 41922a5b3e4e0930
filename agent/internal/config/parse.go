package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/BurntSushi/toml"

	"vouch/checks"
	"vouch/checks/kinds"
)

// maxFile is the size in bytes above which a file cannot be meant.
const maxFile = 1 << 20

// Load reads and checks a configuration file. Its error is Problems: all mistakes of the file, or
// the one reason why it cannot be read. It opens nothing but the file and asks only for the host's
// name, where agent.node is not set.
func Load(path string) (*Config, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, Problems{unreadable(path, err)}
	}
	return Parse(path, data)
}

var errTooLarge = fmt.Errorf("is larger than %d KiB", maxFile>>10)

func readFile(path string) ([]byte, error) {
	// O_NONBLOCK: a named pipe that nobody writes to must not hang the agent.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		return nil, errTooLarge
	}
	return data, err
}

// unreadable explains why a file could not be read, and what to do about it.
func unreadable(path string, err error) Problem {
	p := Problem{File: path, What: "cannot be read: " + cause(err).Error()}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		p.WayOut = "name another file, or write this one: vouch config example prints a commented one"
	case errors.Is(err, fs.ErrPermission):
		p.WayOut = "let the agent's user read it, and enter its directories"
	case errors.Is(err, syscall.EISDIR):
		p.WayOut = "name the file in it"
	case errors.Is(err, errTooLarge):
		p.WayOut = "name the configuration file"
	}
	return p
}

// cause takes off the path, which the problem names already.
func cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// Parse checks the text of a configuration file; file is its name in messages. Its error is
// Problems: all mistakes, sorted by position. A text that is no TOML has one, its first, or as many
// as there are values without their quotes.
func Parse(file string, data []byte) (*Config, error) {
	return parser{newSpec: kinds.New, kinds: kinds.Names(), hostname: os.Hostname}.parse(file, data)
}

// A specOf gives a new Spec of a kind of check, false for a kind that is not there.
type specOf func(kind string) (checks.Spec, bool)

// A parser knows the kinds of checks and where to ask for the host's name.
type parser struct {
	newSpec  specOf
	kinds    []string
	hostname func() (string, error)
}

func (p parser) parse(file string, data []byte) (*Config, error) {
	prims := map[string]toml.Primitive{}
	md, err := toml.Decode(string(data), &prims)
	if err != nil {
		p := syntax(file, string(data), err)
		if ps := unquoted(file, string(data), p.Line); len(ps) > 0 {
			return nil, ps.sorted()
		}
		return nil, Problems{p}
	}
	doc := &document{file: file, md: md, places: locate(string(data)), inner: map[string]bool{}}
	root := doc.root(prims)
	rt := root.section("router")
	cfg := &Config{
		File:    file,
		Agent:   p.agent(root.section("agent")),
		Control: control(root.section("control")),
		Router:  router(rt),
	}
	keepApart(rt, cfg)
	cfg.Services = p.services(root, rt, cfg.Router)
	root.unknown("")
	doc.refuseInner()
	doc.refuseEmpty()
	doc.dropCaused()
	if err := doc.problems.sorted(); err != nil {
		return nil, err
	}
	return cfg, nil
}

// syntax turns the library's error into one line with a position. Of the library's positions only
// the offset can be relied on: at the ends of lines its line or column is off.
func syntax(file, text string, err error) Problem {
	p := Problem{File: file, Line: 1, Col: 1, Key: "syntax"}
	var pe toml.ParseError
	if !errors.As(err, &pe) {
		p.What = err.Error()
		return p
	}
	text = withoutMark(text)
	before := text[:min(max(pe.Position.Start, 0), len(text))]
	p.Line, p.Col = strings.Count(before, "\n")+1, len(before)-strings.LastIndexByte(before, '\n')
	p.What = strings.TrimSuffix(pe.Message, ".")
	for _, h := range syntaxHints {
		if strings.Contains(pe.Message, h.message) {
			p.WayOut = h.wayOut
			break
		}
	}
	return p
}

// syntaxHints tell the way out of the most common mistakes, by what the library says of them.
var syntaxHints = []struct{ message, wayOut string }{
	{"already been defined", "keep one of the two"},
	{"newlines not allowed", "write the table on one line"},
	{"strings cannot contain newlines", `close the string with " on the same line`},
	{"invalid escape", `write \\ for a backslash`},
	{"UTF-8", "save the file as UTF-8"},
	{"expected value but found", `put text in double quotes, as in key = "text"`},
	{"expected a digit", `put text in double quotes, as in key = "text"`},
	{"to end table name", "close the table's name with ]"},
	{"expected '.' or '='", "write key = value"},
	{"control characters", "remove it"},
	{"array terminator", "put a comma between elements and ] behind the last"},
}
