package bird

import (
	"context"
	"net/netip"
	"regexp"
	"slices"

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
	for _, p := range part.prefixes {
		symbol, worse := b.definitions(p)
		for _, s := range []string{symbol, worse} {
			if s != "" && !slices.Contains(symbols, s) {
				symbols = append(symbols, s)
			}
		}
	}
	commands := make([]string, len(symbols))
	for i, s := range symbols {
		commands[i] = "eval " + s
	}
	replies, err := part.read(ctx, commands...)
	told := map[string]ctl.Reply{}
	for i, r := range replies {
		told[symbols[i]] = r
	}
	for _, p := range part.prefixes {
		symbol, worse := b.definitions(p)
		v := value{name: symbol, failed: err != nil}
		if err == nil {
			v.normal, v.known = b.says(told[symbol], p)
			if worse != "" {
				v.worse, _ = b.says(told[worse], p)
			}
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
var member = regexp.MustCompile(`[0-9a-fA-F:.]+/[0-9]+`)

// says tells whether a definition lets the prefix be announced, and whether BIRD knows it.
func (b byInclude) says(r ctl.Reply, p netip.Prefix) (on, known bool) {
	texts := r.Texts(ctl.Evaluated)
	if len(texts) == 0 {
		return false, false
	}
	if b.options.Style == StyleSwitch {
		return texts[0] == "0", true
	}
	for _, text := range texts {
		for _, word := range member.FindAllString(text, -1) {
			if q, err := netip.ParsePrefix(word); err == nil && q == p {
				return true, true
			}
		}
	}
	return false, true
}
