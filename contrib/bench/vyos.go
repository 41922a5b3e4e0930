package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"vouch/routers"
	"vouch/routers/lab"
	"vouch/routers/program"
	"vouch/routers/vyos"
	"vouch/routers/vyos/vyostest"
)

// commitTime is what a commit takes on a VyOS 1.4 with little to do. The route is out of FRR after three quarters
// of it. What a vbash of VyOS needs to start, a second, the stand-in's does not.
const commitTime = 2 * time.Second

// vyosBGP has the stand-in of VyOS over FRR, and instead of vouch a script as an operator writes it.
func vyosBGP() site {
	const kernel = " address-family ipv4 unicast\n  redistribute kernel\n exit-address-family\n"
	s := site{release: lab.FRRHost, network: lab.AnycastOptions{BGP: true, Nodes: lab.FRRHost, NoUnbound: true, NodeConfig: kernel},
		subjects: []subject{byKernelRoute("VyOS kernel, BGP", vyos.ProtocolBGP)}}
	for _, of := range []struct{ name, style string }{{"VyOS 1.4", vyostest.RerenderStatic}, {"VyOS 1.3", vyostest.Incremental}, {"VyOS 1.5", vyostest.RerenderLate}} {
		for _, via := range []string{vyos.ViaConfig, vyos.ViaVbash} {
			own := byCommit(of.name+" static via "+via+", BGP", of.style, vyos.Options{Via: via, Protocol: vyos.ProtocolBGP})
			if via == vyos.ViaConfig {
				own.instead = byOperator(of.style)
			}
			s.subjects = append(s.subjects, own)
		}
	}
	return s
}

func vyosOSPF() site {
	return site{release: lab.FRRHost,
		network: lab.AnycastOptions{Nodes: lab.FRRHost, NoUnbound: true, Daemons: []string{"staticd"}, NodeOSPF: " redistribute kernel\n redistribute static\n",
			CoreConfig: "exit\nno zebra nexthop kernel enable\n"}, // as in frrOSPF
		subjects: []subject{
			byKernelRoute("VyOS kernel, OSPF", vyos.ProtocolOSPF),
			byCommit("VyOS 1.4 static via config, OSPF", vyostest.RerenderStatic, vyos.Options{Protocol: vyos.ProtocolOSPF}),
		},
	}
}

func byKernelRoute(name, protocol string) subject {
	return subject{name: name, prefix: lab.Service, driver: func(nd *lab.AnycastNode) (routers.Router, error) {
		return vyos.New(vyos.Options{Protocol: protocol, SocketDir: nd.FRR.SocketDir()}), nil
	}}
}

// byCommit makes a subject whose changes are commits, each of which takes long.
func byCommit(name, style string, o vyos.Options) subject {
	o.Method = vyos.MethodStatic
	return subject{name: name, prefix: lab.Service, slow: true, driver: func(nd *lab.AnycastNode) (routers.Router, error) {
		return newCommitting(nd, style, func(s *vyostest.System) (routers.Router, error) {
			o.Root, o.SocketDir = s.Root(), nd.FRR.SocketDir()
			return vyos.New(o), nil
		})
	}}
}

// byOperator is a script that does the same with vbash.
func byOperator(style string) *subject {
	return &subject{name: "a script of vbash", prefix: lab.Service, slow: true, driver: func(nd *lab.AnycastNode) (routers.Router, error) {
		return newCommitting(nd, style, func(s *vyostest.System) (routers.Router, error) {
			file := filepath.Join(nd.Dir(), "anycast-vyos")
			command := []string{file}
			o := program.Options{Up: command, Down: command, Read: command, Timeout: 20 * time.Second}
			return program.New(o), os.WriteFile(file, []byte(operatorScript(s.Root())), 0o755)
		})
	}}
}

// operatorScript does what script-template is there for. VyOS tells by an exit status whether the route is there.
func operatorScript(root string) string {
	return strings.ReplaceAll(`#!/bin/sh
path="protocols static route $ANYCAST_PREFIX"
case $ANYCAST_ACTION in
up) line="set $path blackhole" ;;
down) line="delete $path" ;;
read) exec ROOT/usr/bin/cli-shell-api existsActive $path ;;
esac
exec ROOT/usr/bin/sg vyattacfg -c "umask 0002; exec ROOT/bin/vbash -s" <<END
source ROOT/opt/vyatta/etc/functions/script-template
configure
$line
commit
exit
END
`, "ROOT", root)
}

// A keeper is a driver that has a configuration which follows its changes.
type keeper interface {
	// kept waits until the configuration has the prefix, or has it no more.
	kept(ctx context.Context, p netip.Prefix, there bool) error
}

// committing is a driver of a stand-in that ends with it.
type committing struct {
	routers.Router
	stand  *standIn
	system *vyostest.System
}

func newCommitting(nd *lab.AnycastNode, style string, driver func(*vyostest.System) (routers.Router, error)) (routers.Router, error) {
	c := &committing{stand: &standIn{}}
	err := c.stand.try(func() {
		c.system = vyostest.New(c.stand, vyostest.Options{SocketDir: nd.FRR.SocketDir(), Style: style, Delay: commitTime})
	})
	if err == nil {
		c.Router, err = driver(c.system)
	}
	if err != nil {
		return nil, errors.Join(err, c.stand.close())
	}
	return c, nil
}

func (c *committing) Close() error { return errors.Join(c.Router.Close(), c.stand.close()) }

func (c *committing) kept(ctx context.Context, p netip.Prefix, there bool) error {
	return lab.Wait(ctx, "VyOS's configuration to follow", 5*time.Millisecond, func() (is bool, err error) {
		err = c.stand.try(func() {
			text := strings.Join(c.system.Active(), "\n")
			is = text != "" && strings.Contains(text, " "+p.String()+" ") == there
		})
		return is, err
	})
}

// A standIn is what a vyostest.System belongs to in place of a test.
type standIn struct {
	cleanups []func()
	failed   []error
}

var _ vyostest.TB = (*standIn)(nil)

// failure is what Fatalf panics with, to end whoever called it.
type failure struct{ error }

func (s *standIn) Helper()                   {}
func (s *standIn) Logf(string, ...any)       {}
func (s *standIn) Errorf(f string, a ...any) { s.failed = append(s.failed, fmt.Errorf(f, a...)) }
func (s *standIn) Fatalf(f string, a ...any) { panic(failure{fmt.Errorf(f, a...)}) }
func (s *standIn) Cleanup(f func())          { s.cleanups = append(s.cleanups, f) }
func (s *standIn) Context() context.Context  { return context.Background() }

// try gives what made f fail.
func (s *standIn) try(f func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			fault, ok := v.(failure)
			if !ok {
				panic(v)
			}
			err = fault.error
		}
	}()
	f()
	return nil
}

// close ends what belongs to it, and gives what went wrong.
func (s *standIn) close() error {
	for i := len(s.cleanups) - 1; i >= 0; i-- {
		s.failed = append(s.failed, s.try(s.cleanups[i]))
	}
	s.cleanups = nil
	return errors.Join(s.failed...)
}
