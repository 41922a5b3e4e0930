package config

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"

	"vouch/routers/bird"
)

// What BIRD takes for a symbol without quotes, and a template of one.
var (
	symbolForm   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)
	templateForm = regexp.MustCompile(`^(?:[A-Za-z_]|\{service\}|\{SERVICE\})(?:[A-Za-z0-9_]|\{service\}|\{SERVICE\}){0,62}$`)
)

const symbolWords = `a letter or "_", then letters, digits and "_", up to 63 of them`

// template refuses what makes no symbol of any service.
func (t *table) template(key, v string) {
	if t.has(key) {
		t.matches(key, v, templateForm, "must be a BIRD symbol: "+symbolWords+"; {service} and {SERVICE} stand for the service's name",
			`such as "anycast_{service}"`)
	}
}

// named says whether a template makes a symbol for each service.
func named(template string) bool { return bird.Expand(template, "a") != template }

// symbolDefaults settles the templates that are not written.
func symbolDefaults(t *table, r *Router) {
	if !uses.effective(*r, "symbol") {
		return
	}
	symbol, symbol6 := r.bird().Symbols()
	setDefault(t, "symbol", &r.Symbol, symbol)
	setDefault(t, "symbol6", &r.Symbol6, symbol6)
}

// bird is what the driver makes symbols by.
func (r Router) bird() bird.Options {
	return bird.Options{Method: r.Method, Style: r.Style, Symbol: r.Symbol, Symbol6: r.Symbol6}
}

// sixth gives a template for IPv6 beside that for IPv4.
func (r Router) sixth(template string) string { return r.bird().Sixth(template) }

// A symbol is what the prefixes of one family of a service go by in BIRD's configuration.
type symbol struct {
	service  string
	name     string
	v6       bool
	degraded bool
	template string // that it was made of; empty: it is the service's own
	at       *table
}

// key is where it comes from.
func (x symbol) key() string {
	if x.v6 {
		return "symbol6"
	}
	return "symbol"
}

// router is where its template is in [router].
func (x symbol) router() string {
	if x.degraded {
		return "router.degraded." + x.key()
	}
	return "router." + x.key()
}

// sharesSymbols says whether several services may go by one symbol: each has its routes or prefixes in it.
func (r Router) sharesSymbols() bool {
	return slices.Contains([]string{styleRoutes, styleList, styleFunction}, r.Style)
}

// partsFamilies says whether a symbol stands for what can hold one family only, in a file for both.
func (r Router) partsFamilies() bool {
	return slices.Contains([]string{styleRoutes, styleList}, r.Style) && r.Include6 == ""
}

// symbols gives all symbols of a service, of the families that it has prefixes of: those of its own, or
// what the router's templates make.
func (r Router) symbols(s Service) []symbol {
	if !uses.effective(r, "symbol") {
		return nil
	}
	var ss []symbol
	add := func(x symbol, own, template, degraded string) {
		if x.service, x.name, x.template = s.Name, own, ""; own == "" {
			x.name, x.template = bird.Expand(template, s.Name), template
		}
		if ss = append(ss, x); degraded != "" {
			x.name, x.template, x.degraded = bird.Expand(degraded, s.Name), degraded, true
			ss = append(ss, x)
		}
	}
	v4, v6 := families(s.Prefixes)
	if v4 {
		add(symbol{}, s.Symbol, r.Symbol, r.Degraded.Symbol)
	}
	if v6 {
		add(symbol{v6: true}, s.Symbol6, r.Symbol6, r.Degraded.Symbol6)
	}
	return ss
}

func families(ps []netip.Prefix) (v4, v6 bool) {
	for _, p := range ps {
		v4, v6 = v4 || p.Addr().Is4(), v6 || p.Addr().Is6()
	}
	return v4, v6
}

// ownSymbols looks at the symbols that a service has of its own.
func ownSymbols(t *table, r Router, s Service) {
	v4, v6 := families(s.Prefixes)
	for _, w := range []struct {
		key, value, family, other string
		has                       bool
	}{{"symbol", s.Symbol, "IPv4", "symbol6", v4}, {"symbol6", s.Symbol6, "IPv6", "symbol", v6}} {
		if !t.has(w.key) || !t.good(w.key) {
			continue
		}
		if because, wayOut := uses.idle(r, w.key); because != "" {
			t.refuse(w.key, "has no effect "+because, wayOut)
			continue
		}
		if t.good("prefixes") && !w.has {
			t.refuse(w.key, "has no effect without an "+w.family+" prefix", "remove it, or use "+w.other)
			continue
		}
		t.matches(w.key, w.value, symbolForm, "must be a BIRD symbol: "+symbolWords, `such as "anycast_dns"`)
	}
}

// A symbolTable has the symbols of the services so far, by name.
type symbolTable map[string][]symbol

// enter refuses a service's symbols that are none, and those that cannot be had beside those of another
// service, or its own. It says one thing of each service.
func (st symbolTable) enter(rt, t *table, r Router, s Service) {
	if !rt.good("daemon", "method", "style", "symbol", "symbol6", "degraded") || !t.good("prefixes", "symbol", "symbol6") {
		return
	}
	said := false
	for _, x := range r.symbols(s) {
		x.at = t
		if !said && !symbolForm.MatchString(x.name) {
			said = true
			t.refuseTable(fmt.Sprintf("goes by %q, as %s makes it, which is no BIRD symbol: %s", x.name, x.router(), symbolWords), x.other())
		}
		for _, y := range st[x.name] {
			if what, wayOut := x.clash(y, r); !said && what != "" {
				said = true
				x.refuse(what, wayOut)
			}
		}
		st[x.name] = append(st[x.name], x)
	}
}

// clash says why a symbol cannot be had beside another of the same name, and what to do about it; nothing
// when it can.
func (x symbol) clash(y symbol, r Router) (what, wayOut string) {
	what = fmt.Sprintf("goes by the BIRD symbol %q, as service %s does (%s:%d)", x.name, y.service, x.at.doc.file, y.line())
	same := x.service == y.service
	switch {
	case x.degraded == y.degraded:
	case same:
		return fmt.Sprintf("goes by the BIRD symbol %q both degraded and not", x.name), "write another router.degraded." + x.key()
	case x.degraded:
		return what + " when it is not degraded", x.other()
	case y.degraded:
		return what + " when it is degraded", y.other()
	}
	switch {
	case x.v6 != y.v6 && r.partsFamilies():
		return fmt.Sprintf("goes by the BIRD symbol %q, which stands for the other family already", x.name),
			"use another " + x.key() + ", or write include6 if it is BIRD 1.6"
	case same || r.sharesSymbols() && (!named(x.template) || !named(y.template)):
		return "", ""
	}
	return what, x.other()
}

func (x symbol) refuse(what, wayOut string) {
	if x.template == "" {
		x.at.refuse(x.key(), what, wayOut)
		return
	}
	x.at.refuseTable(what, wayOut)
}

// other is the way out of a symbol that is taken, or none.
func (x symbol) other() string {
	switch {
	case x.template == "":
		return "use another"
	case x.degraded:
		return "write another " + x.router()
	case named(x.template):
		return "give it a " + x.key() + " of its own, or another name"
	}
	return "write {service} in " + x.router() + ", or give it a " + x.key() + " of its own"
}

// line is where the symbol comes from.
func (x symbol) line() int {
	path := x.at.path
	if x.template == "" {
		path = join(path, x.key())
	}
	return x.at.doc.places[path.String()].line
}

// SymbolOf gives what a prefix of a service goes by in BIRD's configuration while it is not degraded; own is the
// symbol that the service has for it, if any. It is empty where prefixes have no names.
func (r Router) SymbolOf(service, own string, p netip.Prefix) string {
	if own != "" || !uses.effective(r, "symbol") {
		return own
	}
	return bird.Expand(byFamily(p, r.Symbol, r.Symbol6), service)
}

// symbolsOfPrefix gives what a prefix goes by, as text that differs when any of it does.
func (c *Config) symbolsOfPrefix() map[netip.Prefix]string {
	names := map[netip.Prefix]string{}
	for _, s := range c.Services {
		for _, p := range s.Prefixes {
			one := s
			one.Prefixes = []netip.Prefix{p}
			for _, x := range c.Router.symbols(one) {
				names[p] += fmt.Sprintf("%s %t;", x.name, x.degraded)
			}
		}
	}
	return names
}
