package config

import (
	"fmt"
	"slices"
	"time"
)

// methods are the words of method, by daemon. Program has none.
var methods = map[string][]string{
	daemonAuto:   {methodAddress, methodNetwork, methodStatic, methodProtocol, methodInclude},
	daemonFRR:    {methodAddress, methodNetwork, methodStatic},
	daemonBIRD:   {methodAddress, methodProtocol, methodInclude},
	daemonVyOS:   {methodKernel, methodStatic},
	daemonKernel: {methodAddress},
}

// candidates gives the daemons that may be driven: with auto those of which one is to be found.
func (r Router) candidates() []string {
	if r.Daemon != daemonAuto {
		return []string{r.Daemon}
	}
	return slices.DeleteFunc([]string{daemonFRR, daemonBIRD}, func(d string) bool { return !slices.Contains(methods[d], r.Method) })
}

// otherMethods gives those beside address of the daemons that may be driven, or else of FRR.
func otherMethods(r Router) []string {
	others := func(d string) []string {
		return slices.DeleteFunc(slices.Clone(methods[d]), func(m string) bool { return m == methodAddress })
	}
	if own := others(r.Daemon); len(own) > 0 {
		return own
	}
	return others(daemonFRR)
}

const otherDaemons = `leave it out for the one that is found; daemon = "program" runs commands of your own, ` +
	`and daemon = "kernel" puts the address on an interface and nothing else`

func router(t *table) Router {
	r := Router{Daemon: daemonAuto, Method: methodAddress}
	t.fill(&r)
	if r.Daemon == daemonVyOS {
		setDefault(t, "method", &r.Method, methodKernel)
	}
	degraded := t.below("degraded")
	t.unknown("")
	t.oneOfElse("daemon", r.Daemon, otherDaemons, daemonAuto, daemonFRR, daemonBIRD, daemonVyOS, daemonKernel, daemonProgram)
	routerTimes(t, &r)
	if !t.good("daemon") {
		return r
	}
	routerMethod(t, &r)
	if t.good("method") {
		frrProtocol(t, &r)
		routerWords(t, &r)
		uses.refuseIdle(t, r)
		dropIdleWords(&r)
		routerDefaults(t, &r)
		routerDegraded(t, degraded, &r)
	}
	routerForms(t, r)
	routerPeers(t, r)
	programs(t, r)
	return r
}

// routerMethod settles the way to announce.
func routerMethod(t *table, r *Router) {
	if r.Daemon == daemonProgram {
		r.Method = ""
		return
	}
	words := methods[r.Daemon]
	if !t.good("method") || slices.Contains(words, r.Method) {
		return
	}
	for _, other := range []string{daemonFRR, daemonBIRD, daemonVyOS} {
		if slices.Contains(methods[other], r.Method) {
			t.refuse("method", fmt.Sprintf("must be %s with daemon %s", alternatives(words), r.Daemon),
				fmt.Sprintf("leave it out, or use daemon = %q", other))
			return
		}
	}
	t.oneOf("method", r.Method, words...)
}

// frrProtocol settles whose table the prefix must be in. With daemon auto that may be found out.
func frrProtocol(t *table, r *Router) {
	switch {
	case !uses.effective(*r, "protocol"):
		return
	case r.Method == methodNetwork, r.Method == methodStatic && r.Daemon == daemonFRR, r.Daemon == daemonVyOS:
		setDefault(t, "protocol", &r.Protocol, protocolBGP)
	case r.Daemon == daemonFRR:
		setDefault(t, "protocol", &r.Protocol, protocolOSPF)
	}
	if t.has("protocol") {
		t.oneOf("protocol", r.Protocol, protocolOSPF, protocolBGP)
	}
	if t.good("protocol") && r.Method == methodNetwork && r.Protocol != protocolBGP {
		t.refuse("protocol", `must be "bgp" with method network`, `leave it out, or use method = "address"`)
	}
}

// routerWords settles the words that other keys depend on.
func routerWords(t *table, r *Router) {
	vias := []string{"auto", viaSocket, "command"}
	if r.Daemon == daemonVyOS {
		vias = []string{viaConfig, "vbash"}
	}
	for _, w := range []struct {
		key   string
		value *string
		words []string // the default first
	}{
		{"via", &r.Via, vias},
		{"style", &r.Style, []string{styleSwitch, styleRoutes, styleList, styleFunction}},
		{"owner", &r.Owner, []string{daemonKernel, daemonFRR}},
	} {
		if uses.effective(*r, w.key) {
			setDefault(t, w.key, w.value, w.words[0])
			t.oneOf(w.key, *w.value, w.words...)
		}
	}
}

// dropIdleWords forgets the words that other keys depend on where they have no effect themselves.
func dropIdleWords(r *Router) {
	for key, word := range map[string]*string{"protocol": &r.Protocol, "via": &r.Via, "style": &r.Style} {
		if !uses.effective(*r, key) {
			*word = ""
		}
	}
}

func routerDefaults(t *table, r *Router) {
	for _, d := range []struct {
		key   string
		value *string
		is    string
	}{
		{"interface", &r.Interface, "lo"},
		{"socket_dir", &r.SocketDir, "/run/frr"},
		{"vtysh", &r.Vtysh, "vtysh"},
		{"birdc", &r.Birdc, "birdc"},
		{"birdc6", &r.Birdc6, "birdc6"},
	} {
		if uses.effective(*r, d.key) {
			setDefault(t, d.key, d.value, d.is)
		}
	}
	symbolDefaults(t, r)
	if uses.effective(*r, "min_peers") {
		setDefault(t, "min_peers", &r.MinPeers, 1)
	}
	if r.Method == methodInclude && !t.has("include") {
		t.refuse("include", "is required with method include", `write include = "/var/lib/vouch/vouch.conf", a file which BIRD's own configuration includes`)
	}
}

// maxSocketDir leaves room for the longest of FRR's socket names, "/ospf6d.vty".
const maxSocketDir = maxSocketPath - len("/ospf6d.vty")

// routerForms looks at the values that are written, whatever they are good for.
func routerForms(t *table, r Router) {
	if t.has("interface") {
		t.matches("interface", r.Interface, interfaceForm,
			`must be an interface's name: up to 15 letters, digits, ".", "_" and "-"`, `use "lo" or leave it out`)
	}
	for _, p := range []struct {
		key, value string
		most       int
	}{
		{"socket_dir", r.SocketDir, maxSocketDir},
		{"socket", r.Socket, maxSocketPath},
		{"socket6", r.Socket6, maxSocketPath},
		{"include", r.Include, maxPath},
		{"include6", r.Include6, maxPath},
	} {
		if t.has(p.key) {
			t.absolute(p.key, p.value, p.most)
		}
	}
	for _, p := range []struct{ key, value string }{{"vtysh", r.Vtysh}, {"birdc", r.Birdc}, {"birdc6", r.Birdc6}} {
		if t.has(p.key) && t.good(p.key) && !programForm.MatchString(p.value) {
			t.matches(p.key, p.value, pathForm, `must be a program's name or its absolute path, of letters, digits and "/._+@-"`,
				"leave it out for "+p.key+" in PATH")
		}
	}
	t.template("symbol", r.Symbol)
	t.template("symbol6", r.Symbol6)
}

// routerPeers looks at the names of BIRD's protocols, and at how many of them there must be.
func routerPeers(t *table, r Router) {
	const most = 1000
	if t.has("peers") && t.good("peers") && len(r.Peers) == 0 {
		t.refuse("peers", "names no protocol", "leave it out for all of BGP and OSPF")
	}
	for i, p := range r.Peers {
		switch {
		case !t.has("peers"): // but idle
		case !t.good(elementName([]string{"peers"}, i)): // not a string
		case !peerForm.MatchString(p):
			t.refuseElement("peers", i, fault{`must be a protocol's name: up to 63 letters, digits, "_", "-", "." and ":"`,
				"write it as birdc show protocols does"})
		case slices.Contains(r.Peers[:i], p):
			t.refuseElement("peers", i, fault{"is named twice", "keep one of the two"})
		}
	}
	within(t, "min_peers", r.MinPeers, bound[int]{1, most, "1"})
	within(t, "distance", r.Distance, bound[int]{1, 254, "20"})
	if n := len(r.Peers); t.has("min_peers") && t.good("peers", "min_peers") && n > 0 && r.MinPeers > n {
		t.refuse("min_peers", fmt.Sprintf("asks for more than the %d of peers", n), fmt.Sprintf("use a number up to %d", n))
	}
}

// programs looks at the commands of daemon program.
func programs(t *table, r Router) {
	if r.Daemon != daemonProgram {
		return
	}
	for _, key := range []string{"up", "down"} {
		if !t.has(key) {
			t.refuse(key, "is required with daemon program", fmt.Sprintf(`write %s = ["/path/to/program", "argument"]`, key))
		}
	}
}

func routerTimes(t *table, r *Router) {
	const ms, s, m = time.Millisecond, time.Second, time.Minute
	timeout := s
	if r.Daemon == daemonProgram {
		timeout = 10 * s
	}
	setDefault(t, "timeout", &r.Timeout, timeout)
	deadline := max(3*s, r.Timeout)
	if r.Daemon == daemonVyOS && r.Method == methodStatic {
		deadline = max(30*s, r.Timeout) // a commit takes 2 s on a quiet router, and 14 on a busy one
	}
	setDefault(t, "deadline", &r.Deadline, deadline)
	setDefault(t, "verify_interval", &r.VerifyInterval, 5*s)
	setDefault(t, "retry_max", &r.RetryMax, max(10*s, r.RetryMin))
	setDefault(t, "retry_min", &r.RetryMin, min(200*ms, r.RetryMax))
	within(t, "timeout", r.Timeout, span{10 * ms, m, `"` + show(timeout) + `"`})
	within(t, "deadline", r.Deadline, span{10 * ms, 10 * m, `"` + show(deadline) + `"`})
	within(t, "verify_interval", r.VerifyInterval, span{100 * ms, 60 * m, `"5s"`})
	within(t, "retry_min", r.RetryMin, span{10 * ms, m, `"200ms"`})
	within(t, "retry_max", r.RetryMax, span{10 * ms, 60 * m, `"10s"`})
	notBelow(t, "deadline", r.Deadline, "timeout", r.Timeout)
	notBelow(t, "retry_max", r.RetryMax, "retry_min", r.RetryMin)
}
