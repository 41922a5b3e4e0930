package bird

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"

	"vouch/routers"
	"vouch/routers/bird/include"
)

// kept is what a file of ours says for the next time that BIRD reads it.
type kept struct {
	decided map[netip.Prefix]routers.Want
	edited  bool // it is not as vouch words it: damaged, changed by hand, or of another style
}

// reckon makes a kept of a file.
func (b byInclude) reckon(f file) kept {
	es, v, err := parseEntries(f.path, f.text)
	if err != nil || len(f.text) == 0 {
		return kept{}
	}
	list := es.list()
	return kept{include.Decided(b.options.Style, list), !bytes.Equal(f.text, include.Render(b.format(v), list))}
}

// kept judges what was read by what the file says for when BIRD reads it next, by anybody's configure or when it
// is started anew. Without the file, or without a symbol that bird.conf uses, it would not start.
func (b byInclude) kept(ctx context.Context, parts []part, sights map[netip.Prefix]sight, values map[netip.Prefix]value, os []routers.Observation) {
	at := make(map[netip.Prefix]int, len(os))
	for i, o := range os {
		at[o.Prefix] = i
	}
	for _, part := range parts {
		v, err := part.version(ctx)
		if err != nil {
			continue
		}
		path, err := b.path(v, part.prefixes[0].Addr().Is4())
		if err != nil {
			for _, p := range part.prefixes {
				os[at[p]].Hindered = err.Error()
			}
			continue
		}
		s := b.memo.look(path, b.reckon)
		for _, p := range part.prefixes {
			if o := &os[at[p]]; o.Stage != routers.Unknown && !b.names.left(p) {
				o.Hindered = b.hinders(s, sights[p], p, values[p])
				b.keeps(s, o, values[p])
			}
		}
	}
}

// hinders says why what is written into a file for a prefix does not come into force. What the file does not define
// yet, BIRD cannot know.
func (b byInclude) hinders(s shelf, seen sight, p netip.Prefix, v value) string {
	symbol, _ := b.names.of(p)
	e, in := s.entries[p]
	known, definition := v.known || v.failed, v.name
	if b.options.Style == StyleRoutes {
		known, definition = seen.has(symbol), "protocol "+symbol
	}
	switch {
	case s.foreign():
		return s.path + " was not written by vouch, and is left alone: nothing can be changed by it"
	case !s.usable():
		return s.path + " is no file that vouch can keep"
	case !known && (s.none || in && e.Symbol == symbol):
		return fmt.Sprintf("bird does not know %s: write `include %q;` in bird.conf once vouch has written that file, and `birdc configure`", definition, s.path)
	}
	return ""
}

// keeps judges one prefix. A file that is not ours to write makes nothing broken, as nothing that is asked for
// would mend it.
func (b byInclude) keeps(s shelf, o *routers.Observation, v value) {
	e, in := s.entries[o.Prefix]
	w := s.kept.decided[o.Prefix]
	symbol, worse := b.names.of(o.Prefix)
	broken := ""
	switch {
	case s.foreign(), !s.usable():
		o.Detail = join(o.Detail, o.Hindered)
	case s.none:
		broken = s.path + " is not there"
	case !in:
		broken = s.path + " does not have it"
	case e.Symbol != symbol || e.Worse != worse:
		broken = s.path + " has it by other symbols"
	case s.kept.edited:
		broken = s.path + " is not as vouch wrote it"
	case o.Stage == routers.Absent && w != routers.Withdrawn:
		o.Stage, o.Detail = routers.Configured, join(o.Detail, s.path+" says that it is "+w.String()+", for when bird reads that")
	case b.options.Style == StyleSwitch && v.known && v.want() == routers.Withdrawn && o.Stage > routers.Absent:
		o.Broken = true // enabled by hand, or not disabled by the number: the next configure decides
	case v.known && v.want() != routers.Withdrawn && v.want() != w:
		broken = s.path + " says that it is " + w.String() + ", for when bird reads that"
	}
	if broken != "" {
		o.Broken, o.Detail = true, join(o.Detail, broken)
	}
}
