package config

import (
	"fmt"
	"slices"
)

// A use is one case in which a key of [router] or [router.degraded] has an effect: with that daemon, when
// all its conditions hold.
type use struct {
	key, daemon string
	when        []condition
}

// A condition holds when another key of [router] has one of the words; "" stands for one that is found
// out at run time.
type condition struct {
	key   string
	words []string
}

// A useTable has all cases. A key that is in none of them always has an effect.
type useTable []use

func when(key string, words ...string) condition { return condition{key, words} }

var (
	withAddress  = []condition{when("method", methodAddress)}
	withInclude  = []condition{when("method", methodInclude)}
	withSymbol   = []condition{when("method", methodProtocol, methodInclude)}
	withOSPF     = []condition{when("protocol", protocolOSPF, "")}
	withBGP      = []condition{when("protocol", protocolBGP, "")}
	withStatic   = []condition{when("method", methodStatic)}
	withCommands = []condition{when("via", "auto", "command")}
)

// uses are those of [router].
var uses = useTable{
	{"method", daemonFRR, nil},
	{"method", daemonBIRD, nil},
	{"method", daemonKernel, nil},
	{"interface", daemonFRR, withAddress},
	{"interface", daemonBIRD, withAddress},
	{"interface", daemonKernel, withAddress},
	{"via", daemonFRR, nil},
	{"via", daemonBIRD, nil},
	{"min_peers", daemonFRR, withBGP},
	{"min_peers", daemonBIRD, nil},

	{"protocol", daemonFRR, nil},
	{"owner", daemonFRR, withAddress},
	{"socket_dir", daemonFRR, nil},
	{"vtysh", daemonFRR, withCommands},
	{"unpaced", daemonFRR, withOSPF},

	{"socket", daemonBIRD, nil},
	{"socket6", daemonBIRD, nil},
	{"birdc", daemonBIRD, withCommands},
	{"birdc6", daemonBIRD, withCommands},
	{"style", daemonBIRD, withInclude},
	{"include", daemonBIRD, withInclude},
	{"include6", daemonBIRD, withInclude},
	{"symbol", daemonBIRD, withSymbol},
	{"symbol6", daemonBIRD, withSymbol},
	{"peers", daemonBIRD, nil},

	{"method", daemonVyOS, nil},
	{"protocol", daemonVyOS, nil},
	{"socket_dir", daemonVyOS, nil},
	{"min_peers", daemonVyOS, withBGP},
	{"via", daemonVyOS, withStatic},
	{"distance", daemonVyOS, withStatic},
	{"save", daemonVyOS, withStatic},

	{"up", daemonProgram, nil},
	{"down", daemonProgram, nil},
	{"degrade", daemonProgram, nil},
	{"read", daemonProgram, nil},
}

var (
	degradedSymbol = []condition{when("method", methodProtocol, methodInclude), when("style", "", styleSwitch, styleList, styleFunction)}
	degradedRoutes = []condition{when("method", methodInclude), when("style", styleRoutes)}
)

// degradedUses are those of [router.degraded].
var degradedUses = useTable{
	{"cost", daemonFRR, []condition{when("method", methodAddress), when("protocol", protocolOSPF, "")}},
	{"route_map", daemonFRR, []condition{when("method", methodNetwork)}},
	{"tag", daemonFRR, withStatic},
	{"tag", daemonVyOS, withStatic},
	{"metric", daemonVyOS, []condition{when("method", methodKernel), when("protocol", protocolBGP)}}, // ospfd (8.4.4) gives every such route one metric
	{"symbol", daemonBIRD, degradedSymbol},
	{"symbol6", daemonBIRD, degradedSymbol},
	{"community", daemonBIRD, degradedRoutes},
	{"med", daemonBIRD, degradedRoutes},
	{"prepend", daemonBIRD, degradedRoutes},
	{"metric2", daemonBIRD, degradedRoutes},
}

// word gives the value of a key that others depend on.
func (r Router) word(key string) string {
	return map[string]string{"method": r.Method, "protocol": r.Protocol, "via": r.Via, "style": r.Style}[key]
}

// fails gives the first condition that does not hold.
func (u use) fails(r Router) (condition, bool) {
	for _, c := range u.when {
		if !slices.Contains(c.words, r.word(c.key)) {
			return c, true
		}
	}
	return condition{}, false
}

// effective says whether a key has an effect with a daemon that may be driven.
func (us useTable) effective(r Router, key string) bool {
	because, _ := us.idle(r, key)
	return because == ""
}

// keys gives those that have an effect.
func (us useTable) keys(r Router) (keys []string) {
	for _, u := range us {
		if us.effective(r, u.key) && !slices.Contains(keys, u.key) {
			keys = append(keys, u.key)
		}
	}
	return keys
}

// idle says why a key has no effect, and what to do about it; nothing when it has one.
func (us useTable) idle(r Router, key string) (because, wayOut string) {
	candidates := r.candidates()
	for _, u := range us {
		if u.key != key || !slices.Contains(candidates, u.daemon) {
			continue
		}
		c, fails := u.fails(r)
		if !fails {
			return "", ""
		}
		if because == "" {
			because = "with " + c.key + " " + r.word(c.key)
			wayOut = fmt.Sprintf("remove it, or use %s = %s", c.key, alternatives(slices.DeleteFunc(slices.Clone(c.words), func(w string) bool { return w == "" })))
		}
	}
	if because != "" {
		return because, wayOut
	}
	return us.foreign(r, key)
}

// foreign says why a key of no daemon that may be driven has no effect.
func (us useTable) foreign(r Router, key string) (because, wayOut string) {
	i := slices.IndexFunc(us, func(u use) bool { return u.key == key })
	switch {
	case i < 0:
		return "", ""
	case r.Daemon != daemonAuto:
		return "with daemon " + r.Daemon, "remove it"
	case us[i].daemon == daemonProgram:
		return "with daemon auto", `remove it, or use daemon = "program"`
	}
	return "with method " + r.Method, "remove it"
}

// refuseIdle refuses the keys that do nothing beside the others, and forgets that they are written.
func (us useTable) refuseIdle(t *table, r Router) {
	for _, key := range t.names() {
		if because, wayOut := us.idle(r, key); because != "" && t.good(key) {
			t.refuse(key, "has no effect "+because, wayOut)
			delete(t.bad, key)
			delete(t.prims, key)
		}
	}
}
