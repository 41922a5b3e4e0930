package bird

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"vouch/routers"
)

// names knows what each prefix goes by in BIRD's configuration. Everything is made when the labels are set, so
// that asking costs the same for one service and for a thousand.
type names struct {
	options Options

	mu      sync.Mutex
	called  map[netip.Prefix]called // also what is named no more
	managed map[netip.Prefix]bool   // nil: nothing was ever named, and all is
	rivals  map[string]string       // by service: see rival
	sharers map[string][]netip.Prefix
}

// called is what one prefix goes by.
type called struct {
	label         routers.Label
	symbol, worse string
}

func newNames(o Options) *names { return &names{options: o, called: map[netip.Prefix]called{}} }

// set takes in the labels of what is managed from now on.
func (n *names) set(labels map[netip.Prefix]routers.Label) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.managed, n.sharers = map[netip.Prefix]bool{}, map[string][]netip.Prefix{}
	for p, l := range labels {
		c := n.call(p, l)
		n.called[p], n.managed[p] = c, true
		n.sharers[c.symbol] = append(n.sharers[c.symbol], p)
	}
	n.rivals = rivals(labels, n.options.Symbol, n.options.Symbol6)
}

// call makes the names of a prefix.
func (n *names) call(p netip.Prefix, l routers.Label) called {
	o := n.options
	symbol, worse := o.Symbol, o.Degraded.Symbol
	if !p.Addr().Is4() {
		symbol, worse = o.Symbol6, o.Degraded.Symbol6
	}
	if l.Symbol != "" {
		symbol = l.Symbol
	}
	return called{l, Expand(symbol, l.Service), Expand(worse, l.Service)}
}

// rivals gives for each service another one whose name makes the same symbol: "a-b" and "a_b" would be
// announced and withdrawn together. A service with symbols of its own has none.
func rivals(labels map[netip.Prefix]routers.Label, templates ...string) map[string]string {
	services := map[string]bool{}
	for _, l := range labels {
		if l.Symbol == "" {
			services[l.Service] = true
		}
	}
	found := map[string]string{}
	for _, template := range templates {
		first := map[string]string{} // by symbol: the first service that makes it
		for _, s := range slices.Sorted(maps.Keys(services)) {
			symbol := Expand(template, s)
			other, taken := first[symbol]
			if !taken {
				first[symbol] = s
			}
			if taken && symbol != template {
				found[s] = other
				if _, has := found[other]; !has {
					found[other] = s
				}
			}
		}
	}
	return found
}

// of gives what a prefix goes by, and what when it is degraded: empty where that has no name of its own.
func (n *names) of(p netip.Prefix) (symbol, worse string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c, ok := n.called[p]
	if !ok {
		c = n.call(p, routers.Label{})
	}
	return c.symbol, c.worse
}

// service is whose a prefix is.
func (n *names) service(p netip.Prefix) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.called[p].label.Service
}

// rival is another service that a prefix's cannot be told from by its symbol. What is named no more is nobody's.
func (n *names) rival(p netip.Prefix) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.called[p].label; n.managed[p] && l.Symbol == "" {
		return n.rivals[l.Service]
	}
	return ""
}

// known gives all prefixes that ever had a label.
func (n *names) known() map[netip.Prefix]routers.Label {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make(map[netip.Prefix]routers.Label, len(n.called))
	for p, c := range n.called {
		all[p] = c.label
	}
	return all
}

// left says that a prefix is not managed any more.
func (n *names) left(p netip.Prefix) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.managed != nil && !n.managed[p]
}

// sharer gives a managed prefix that goes by the symbol of one that is not any more, where the symbol stands for
// a thing that is on or off for all of them. With alike it is one of the same family: BIRD 1.6 has a
// configuration for each.
func (n *names) sharer(p netip.Prefix, alike bool) (netip.Prefix, bool) {
	if k := n.options.kind(); k != MethodProtocol && k != StyleSwitch || !n.left(p) {
		return netip.Prefix{}, false
	}
	symbol, _ := n.of(p)
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, q := range n.sharers[symbol] {
		if !alike || q.Addr().Is4() == p.Addr().Is4() {
			return q, true
		}
	}
	return netip.Prefix{}, false
}

// degradable says whether there is a worse way for a prefix.
func (n *names) degradable(p netip.Prefix) bool {
	o := n.options
	_, worse := n.of(p)
	switch {
	case o.Method == MethodAddress:
		return false
	case o.Method == MethodInclude && o.Style == StyleRoutes:
		return o.Degraded.byAttributes()
	}
	return worse != ""
}

// join puts two details together, and says nothing twice.
func join(a, b string) string {
	if strings.Contains(a, b) {
		return a
	}
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}
