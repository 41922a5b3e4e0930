package config

import (
	"fmt"
	"time"
)

func (p parser) agent(t *table) Agent {
	a := Agent{StateFile: "/run/vouch/state.json", LogLevel: "info"}
	t.fill(&a)
	t.unknown("")
	if t.has("node") {
		t.matches("node", a.Node, nodeForm, nodeWords, "leave it out for the host's name")
	} else {
		a.Node = p.hostNode(t)
	}
	t.absolute("state_file", a.StateFile, maxPath)
	t.oneOf("log_level", a.LogLevel, "debug", "info", "warn", "error")
	return a
}

const nodeWords = `must be up to 253 letters, digits, ".", "_" and "-"`

// hostNode gives the host's name as that of the node.
func (p parser) hostNode(t *table) string {
	name, err := p.hostname()
	switch {
	case err != nil:
		t.refuse("node", "is not set, and the host's name cannot be read: "+err.Error(), `write node = "NAME" in [agent]`)
	case !nodeForm.MatchString(name):
		t.refuse("node", fmt.Sprintf("is not set, and the host's name %q %s", name, nodeWords), `write node = "NAME" in [agent]`)
	}
	return name
}

func control(t *table) Control {
	c := Control{Socket: "/run/vouch/control.sock"}
	t.fill(&c)
	t.unknown("")
	t.absolute("socket", c.Socket, maxSocketPath)
	if t.has("group") {
		t.matches("group", c.Group, groupForm, "must be the name of a group", "leave it out for the agent's own")
	}
	if t.has("admin_group") {
		t.matches("admin_group", c.AdminGroup, groupForm, "must be the name of a group", "leave it out for none")
	}
	return c
}

const otherDaemons = `this version drives no other yet: daemon = "kernel" puts the address on an interface, ` +
	"where a routing daemon such as BIRD can pick it up"

func router(t *table) Router {
	r := Router{Method: methodAddress}
	t.fill(&r)
	t.unknown("")
	routerTimes(t, &r)
	if !t.has("daemon") {
		t.refuse("daemon", "is required", `write daemon = "frr" or daemon = "kernel" in [router]`)
	}
	t.oneOfElse("daemon", r.Daemon, otherDaemons, daemonFRR, daemonKernel)
	if !t.good("daemon") {
		return r
	}
	if r.Daemon == daemonKernel {
		kernelRouter(t, &r)
	} else {
		frrRouter(t, &r)
	}
	routerInterface(t, &r)
	return r
}

// kernelRouter settles what is particular to daemon kernel: there is only the address.
func kernelRouter(t *table, r *Router) {
	if t.good("method") && r.Method != methodAddress {
		t.refuse("method", `must be "address" with daemon kernel`, `leave it out, or use daemon = "frr"`)
	}
	t.without("with daemon kernel", "protocol", "via", "socket_dir", "vtysh", "min_peers", "unpaced")
	r.Protocol, r.Via, r.SocketDir, r.Vtysh, r.MinPeers, r.Unpaced = "", "", "", "", 0, false
}

// maxSocketDir leaves room for the longest of FRR's socket names, "/ospf6d.vty".
const maxSocketDir = maxSocketPath - len("/ospf6d.vty")

// frrRouter settles what is particular to daemon frr.
func frrRouter(t *table, r *Router) {
	t.oneOf("method", r.Method, methodAddress, methodNetwork, methodStatic)
	frrProtocol(t, r)
	setDefault(t, "via", &r.Via, "auto")
	t.oneOf("via", r.Via, "auto", viaSocket, "command")
	setDefault(t, "socket_dir", &r.SocketDir, "/run/frr")
	t.absolute("socket_dir", r.SocketDir, maxSocketDir)
	if r.Via == viaSocket {
		t.without("with via socket", "vtysh")
		return
	}
	setDefault(t, "vtysh", &r.Vtysh, "vtysh")
	if t.good("vtysh") && !programForm.MatchString(r.Vtysh) {
		t.matches("vtysh", r.Vtysh, pathForm,
			`must be a program's name or its absolute path, of letters, digits and "/._+@-"`, "leave it out for vtysh in PATH")
	}
}

// frrProtocol settles whose table the prefix must be in.
func frrProtocol(t *table, r *Router) {
	byMethod := map[string]string{methodAddress: protocolOSPF, methodNetwork: protocolBGP, methodStatic: protocolBGP}
	setDefault(t, "protocol", &r.Protocol, byMethod[r.Method])
	if t.has("protocol") {
		t.oneOf("protocol", r.Protocol, protocolOSPF, protocolBGP)
	}
	if !t.good("protocol", "method") {
		return
	}
	if r.Method == methodNetwork && r.Protocol != protocolBGP {
		t.refuse("protocol", `must be "bgp" with method network`, `leave it out, or use method = "address"`)
		return
	}
	if r.Protocol == protocolOSPF {
		t.without("with protocol ospf", "min_peers")
		return
	}
	t.without("with protocol bgp", "unpaced")
	setDefault(t, "min_peers", &r.MinPeers, 1)
	within(t, "min_peers", r.MinPeers, bound[int]{1, 1000, "1"})
}

// routerInterface settles where method address puts the addresses.
func routerInterface(t *table, r *Router) {
	if !t.good("method") {
		return
	}
	if r.Method != methodAddress {
		t.without("with method "+r.Method, "interface")
		return
	}
	setDefault(t, "interface", &r.Interface, "lo")
	t.matches("interface", r.Interface, interfaceForm,
		`must be an interface's name: up to 15 letters, digits, ".", "_" and "-"`, `use "lo" or leave it out`)
}

func routerTimes(t *table, r *Router) {
	const ms, s, m = time.Millisecond, time.Second, time.Minute
	setDefault(t, "timeout", &r.Timeout, s)
	setDefault(t, "deadline", &r.Deadline, max(3*s, r.Timeout))
	setDefault(t, "verify_interval", &r.VerifyInterval, 5*s)
	setDefault(t, "retry_max", &r.RetryMax, max(10*s, r.RetryMin))
	setDefault(t, "retry_min", &r.RetryMin, min(200*ms, r.RetryMax))
	within(t, "timeout", r.Timeout, span{10 * ms, m, `"1s"`})
	within(t, "deadline", r.Deadline, span{10 * ms, 10 * m, `"3s"`})
	within(t, "verify_interval", r.VerifyInterval, span{100 * ms, 60 * m, `"5s"`})
	within(t, "retry_min", r.RetryMin, span{10 * ms, m, `"200ms"`})
	within(t, "retry_max", r.RetryMax, span{10 * ms, 60 * m, `"10s"`})
	notBelow(t, "deadline", r.Deadline, "timeout", r.Timeout)
	notBelow(t, "retry_max", r.RetryMax, "retry_min", r.RetryMin)
}

// setDefault gives a key that is not written its default.
func setDefault[T any](t *table, key string, v *T, def T) {
	if !t.has(key) {
		*v = def
	}
}
