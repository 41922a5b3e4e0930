package bird

import (
	"cmp"
	"strings"
)

// The templates where none is set, by method protocol or by style.
var defaultSymbols = map[string]string{
	MethodProtocol: "{service}",
	StyleSwitch:    "{SERVICE}_OFF",
	StyleRoutes:    "vouch4",
	StyleList:      "ANYCAST_PREFIXES",
	StyleFunction:  "match_route",
}

// kind is what symbols stand for: a protocol, or what the style has.
func (o Options) kind() string {
	if o.Method == MethodProtocol {
		return MethodProtocol
	}
	return o.Style
}

// Symbols gives the templates that count, those of the method and style where o has none.
func (o Options) Symbols() (symbol, symbol6 string) {
	if o.Symbol == "" && o.kind() == StyleRoutes {
		return defaultSymbols[StyleRoutes], cmp.Or(o.Symbol6, "vouch6")
	}
	symbol = cmp.Or(o.Symbol, defaultSymbols[o.kind()])
	return symbol, cmp.Or(o.Symbol6, o.Sixth(symbol))
}

// Sixth gives a template for IPv6 beside that for IPv4: with a 6 behind it, since a static protocol and a set
// have one family; but a number and a function do for both.
func (o Options) Sixth(template string) string {
	if k := o.kind(); template == "" || k == StyleSwitch || k == StyleFunction {
		return template
	}
	return template + "6"
}

// Expand makes a symbol of a template for one service: {service} and {SERVICE} stand for its name. What no
// symbol can hold becomes "_".
func Expand(template, service string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_':
			return r
		}
		return '_'
	}, service)
	return strings.NewReplacer("{service}", name, "{SERVICE}", strings.ToUpper(name)).Replace(template)
}
