package agent

import (
	"fmt"
	"time"

	"vouch/agent/internal/config"
	"vouch/routers"
	"vouch/routers/bird"
	"vouch/routers/detect"
	"vouch/routers/frr"
	"vouch/routers/kernel"
	"vouch/routers/program"
	"vouch/routers/vyos"
)

// drivers lists what can be driven, by the name in [router] daemon.
var drivers = map[string]func(config.Router) routers.Router{
	"auto":    func(c config.Router) routers.Router { return detect.New(detectOptions(c)) },
	"bird":    func(c config.Router) routers.Router { return bird.New(birdOptions(c)) },
	"frr":     func(c config.Router) routers.Router { return frr.New(frrOptions(c)) },
	"kernel":  func(c config.Router) routers.Router { return kernel.New(c.Interface) },
	"vyos":    func(c config.Router) routers.Router { return vyos.New(vyosOptions(c)) },
	"program": func(c config.Router) routers.Router { return program.New(programOptions(c)) },
}

// NewRouter gives the driver that c asks for. It does nothing until it is used.
func NewRouter(c config.Router) (routers.Router, error) {
	open, ok := drivers[c.Daemon]
	if !ok {
		return nil, fmt.Errorf("router.daemon: there is no driver %q", c.Daemon)
	}
	return open(c), nil
}

// methodsOf are the methods that one daemon alone has.
var methodsOf = map[string]string{frr.MethodNetwork: "frr", frr.MethodStatic: "frr", bird.MethodProtocol: "bird", bird.MethodInclude: "bird"}

// detectOptions are those of every daemon that has c's method.
func detectOptions(c config.Router) detect.Options {
	o := detect.Options{FRR: frrOptions(c), BIRD: birdOptions(c)}
	if only := methodsOf[c.Method]; only != "" {
		o.Only = []string{only}
	}
	return o
}

func frrOptions(c config.Router) frr.Options {
	return frr.Options{Method: c.Method, Protocol: c.Protocol, Interface: c.Interface, Via: c.Via, SocketDir: c.SocketDir, Vtysh: c.Vtysh,
		MinPeers: c.MinPeers, Unpaced: c.Unpaced, Timeout: c.Timeout, Owner: c.Owner,
		Degraded: frr.Degraded{Cost: c.Degraded.Cost, RouteMap: c.Degraded.RouteMap, Tag: c.Degraded.Tag}}
}

func birdOptions(c config.Router) bird.Options {
	d := c.Degraded
	return bird.Options{Method: c.Method, Interface: c.Interface, Via: c.Via, Socket: c.Socket, Socket6: c.Socket6, Birdc: c.Birdc, Birdc6: c.Birdc6,
		Style: c.Style, Include: c.Include, Include6: c.Include6, Symbol: c.Symbol, Symbol6: c.Symbol6,
		Peers: c.Peers, MinPeers: c.MinPeers, Timeout: c.Timeout,
		Degraded: bird.Degraded{Symbol: d.Symbol, Symbol6: d.Symbol6, Community: d.Community, MED: d.MED, Prepend: d.Prepend, Metric2: d.Metric2}}
}

// commitPatience is how long a commit is waited for before the tables are read beside it: those of FRR change long before
// it ends.
const commitPatience = 300 * time.Millisecond

func vyosOptions(c config.Router) vyos.Options {
	return vyos.Options{Method: c.Method, Via: c.Via, SocketDir: c.SocketDir, Protocol: c.Protocol, MinPeers: c.MinPeers,
		Distance: c.Distance, Save: c.Save, Timeout: c.Timeout, Patience: commitPatience, Degraded: vyos.Degraded{Tag: c.Degraded.Tag, Metric: c.Degraded.Metric}}
}

func programOptions(c config.Router) program.Options {
	return program.Options{Up: c.Up, Down: c.Down, Degrade: c.Degrade, Read: c.Read, Timeout: c.Timeout}
}
