package bird

import (
	"context"
	"net/netip"
	"regexp"
	"strconv"

	"vouch/routers"
	"vouch/routers/bird/ctl"
	"vouch/routers/bird/include"
)

// A value is what the file's definitions say of a prefix, as they are in force in BIRD.
type value struct {
	name   string // the definition that lets it be announced
	known  bool   // BIRD knows that
	normal bool   // it is to be announced
	worse  bool   // it is to be announced in the worse way
	failed bool   // it could not be read
	detail string
}

// want is what BIRD was told; Keep where it was told nothing.
func (v value) want() routers.Want {
	switch {
	case !v.known:
		return routers.Keep
	case v.normal:
		return routers.Announced
	case v.worse:
		return routers.Degraded
	}
	return routers.Withdrawn
}

// values asks one BIRD for the definitions of its prefixes, each once.
func (b byInclude) values(ctx context.Context, part part, values map[netip.Prefix]value) error {
	if b.options.Style == StyleRoutes || len(part.prefixes) == 0 {
		return nil // the table shows them
	}
	var symbols []string
	listed := map[string]bool{"": true}
	for _, p := range part.prefixes {
		symbol, worse := b.definitions(p)
		for _, s := range []string{symbol, worse} {
			if !listed[s] {
				symbols, listed[s] = append(symbols, s), true
			}
		}
	}
	commands := make([]string, len(symbols))
	for i, s := range symbols {
		commands[i] = "eval " + s
	}
	replies, err := part.read(ctx, commands...)
	told := map[string]answer{}
	for i, r := range replies {
		told[symbols[i]] = b.answer(r)
	}
	for _, p := range part.prefixes {
		symbol, worse := b.definitions(p)
		v := value{name: symbol, failed: err != nil}
		if err == nil {
			v.normal, v.known = told[symbol].passes(p), told[symbol].known
			v.worse = told[worse].passes(p)
			if !v.known {
				v.detail = "bird does not know " + symbol + ": does its configuration include the file?"
			}
		} else {
			v.detail = err.Error()
		}
		values[p] = v
	}
	return err
}

// definitions names what can be asked for: a function itself cannot.
func (b byInclude) definitions(p netip.Prefix) (symbol, worse string) {
	symbol, worse = b.names.of(p)
	if b.options.Style == StyleFunction {
		symbol = include.SetOf(symbol, p.Addr().Is4())
		if worse != "" {
			worse = include.SetOf(worse, p.Addr().Is4())
		}
	}
	return symbol, worse
}

// member is one prefix of a set, as eval prints it.
var member = regexp.MustCompile(`([0-9a-fA-F:.]+)/([0-9]+)`)

// members reads the set that eval prints. 2.0.7 prints prefixes of IPv4 as long as if they were of IPv6:
// 192.0.2.53/32 is "192.0.2.53/128{::1}".
func members(text string) []netip.Prefix {
	var ps []netip.Prefix
	for _, m := range member.FindAllStringSubmatch(text, -1) {
		a, err := netip.ParseAddr(m[1])
		bits, err2 := strconv.Atoi(m[2])
		if err != nil || err2 != nil {
			continue
		}
		if a.Is4() && bits > a.BitLen() {
			bits -= 128 - a.BitLen()
		}
		ps = append(ps, netip.PrefixFrom(a, bits))
	}
	return ps
}

// An answer is what BIRD says of one definition.
type answer struct {
	known bool
	all   bool // it lets everything pass that goes by it
	set   map[netip.Prefix]bool
}

// answer reads the reply to eval: a number that is 1 while it is off, or a set.
func (b byInclude) answer(r ctl.Reply) answer {
	texts := r.Texts(ctl.Evaluated)
	a := answer{known: len(texts) > 0, set: map[netip.Prefix]bool{}}
	if b.options.Style == StyleSwitch {
		a.all = a.known && texts[0] == "0"
		return a
	}
	for _, text := range texts {
		for _, p := range members(text) {
			a.set[p] = true
		}
	}
	return a
}

// passes tells whether a prefix is to be announced by it.
func (a answer) passes(p netip.Prefix) bool { return a.all || a.set[p] }
