package agent

import (
	"fmt"

	"vouch/agent/internal/config"
	"vouch/routers"
	"vouch/routers/frr"
	"vouch/routers/kernel"
)

// drivers lists the routing daemons that can be driven, by the name in [router] daemon.
var drivers = map[string]func(config.Router) (routers.Router, error){
	"frr": func(c config.Router) (routers.Router, error) {
		return frr.New(frr.Options{Method: c.Method, Protocol: c.Protocol, Interface: c.Interface, Via: c.Via, SocketDir: c.SocketDir,
			Vtysh: c.Vtysh, MinPeers: c.MinPeers, Unpaced: c.Unpaced, Timeout: c.Timeout}), nil
	},
	"kernel": func(c config.Router) (routers.Router, error) { return kernel.New(c.Interface), nil },
}

// NewRouter gives the driver that c asks for. It does nothing until it is used.
func NewRouter(c config.Router) (routers.Router, error) {
	open, ok := drivers[c.Daemon]
	if !ok {
		return nil, fmt.Errorf("router.daemon: there is no driver %q", c.Daemon)
	}
	return open(c)
}
