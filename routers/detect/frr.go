package detect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"vouch/routers"
	"vouch/routers/command"
	"vouch/routers/frr"
	"vouch/routers/frr/vty"
)

var frrRow = row{name: "frr", sockets: frrSockets, look: lookFRR, open: openFRR}

// frrDaemons are the ones that are talked to, the most telling first. Only zebra is always there.
var frrDaemons = []string{"zebra", "ospfd", "ospf6d", "bgpd", "staticd", "mgmtd"}

// vyosProgram is there on VyOS only: it makes the commits of its configuration.
const vyosProgram = "/opt/vyatta/sbin/my_commit"

// zebraProgram is where Debian's and FRR's own packages put it.
const zebraProgram = "/usr/lib/frr/zebra"

func frrSockets(o Options) []string {
	paths := make([]string, len(frrDaemons))
	for i, d := range frrDaemons {
		paths[i] = vty.Path(cmp.Or(o.FRR.SocketDir, "/run/frr"), d)
	}
	return paths
}

// lookFRR asks every daemon that has a socket.
func lookFRR(ctx context.Context, o Options, heard listening) Found {
	f := Found{Daemon: "frr", Programs: installed(zebraProgram, cmp.Or(o.FRR.Vtysh, "vtysh"))}
	paths := frrSockets(o)
	sockets, versions := make([]Socket, len(paths)), make([]string, len(paths))
	abreast(len(paths), func(i int) {
		if err := vty.Loading(filepath.Dir(paths[i]), frrDaemons[i]); err != nil {
			sockets[i] = stat(paths[i])
			sockets[i].State, sockets[i].Problem, sockets[i].WayOut = Silent, "not asked: "+err.Error(), "wait"
			return
		}
		sockets[i], versions[i] = probe(ctx, paths[i], heard, "enable "+frrDaemons[i]+" in /etc/frr/daemons, and start frr", askVty)
	})
	runs := map[string]bool{}
	for i, s := range sockets {
		if i == 0 || s.State != Missing {
			f.Sockets = append(f.Sockets, s)
		}
		if s.live() {
			f.Running, runs[frrDaemons[i]] = true, true
			f.By = cmp.Or(f.By, s.Path)
		}
		f.Version = cmp.Or(f.Version, versions[i])
	}
	if f.Version == "" && mayRun(o.FRR.Via, f.Sockets) {
		lookByVtysh(ctx, o, &f)
	}
	f.protocol = frrProtocol(o.FRR.Method, runs)
	if _, err := os.Stat(cmp.Or(o.VyOS, vyosProgram)); err == nil {
		f.Unclear = `this is VyOS, which takes back what is done to its FRR by others: set daemon = "vyos" in [router], or daemon = "frr" to drive it all the same`
	}
	return f
}

// frrProtocol is the protocol of which a daemon runs; where both or none do, the usual one of the method.
func frrProtocol(method string, runs map[string]bool) string {
	ospf, bgp := runs["ospfd"] || runs["ospf6d"], runs["bgpd"]
	switch {
	case method == frr.MethodNetwork, bgp && !ospf:
		return frr.ProtocolBGP
	case ospf && !bgp, method != frr.MethodStatic:
		return frr.ProtocolOSPF
	}
	return frr.ProtocolBGP
}

// askVty asks an FRR daemon. "show version" is understood by all of them, and in the node where a
// session begins.
func askVty(ctx context.Context, conn net.Conn) (string, error) {
	replies, err := vty.New(conn, patience(ctx)).Do(ctx, showVersion)
	if err != nil {
		return "", err
	}
	return frrVersion(replies[0].Text)
}

const showVersion = "show version"

// frrVersion reads the first line, "FRRouting 8.4.4 (host) on Linux(6.1)."
func frrVersion(text string) (string, error) {
	line, _, _ := strings.Cut(text, "\n")
	if words := strings.Fields(line); len(words) > 1 && words[0] == "FRRouting" {
		return words[1], nil
	}
	return "", fmt.Errorf("it says %q", shorten(line))
}

// lookByVtysh goes the way on which the driver would go too.
func lookByVtysh(ctx context.Context, o Options, f *Found) {
	ctx, cancel := context.WithTimeout(ctx, patience(ctx))
	defer cancel()
	program := cmp.Or(o.FRR.Vtysh, "vtysh")
	out, err := command.Run(ctx, command.Spec{Path: program,
		Args: []string{"-d", "zebra", "--vty_socket", cmp.Or(o.FRR.SocketDir, "/run/frr"), "-c", showVersion}})
	if err != nil {
		return
	}
	if v, err := frrVersion(string(out.Stdout)); err == nil {
		f.Running, f.Version, f.By = true, v, program
	}
}

func openFRR(o Options, f Found) routers.Router {
	o.FRR.Protocol = cmp.Or(o.FRR.Protocol, f.protocol)
	return frr.New(o.FRR)
}

// mayRun says whether the driver would run a program to reach the daemon: always, or where a socket is
// missing or denied; see the words of Via in the drivers.
func mayRun(via string, sockets []Socket) bool {
	if via == frr.ViaSocket {
		return false
	}
	for _, s := range sockets {
		if s.State == Silent || s.State == Stale {
			return via == frr.ViaCommand
		}
	}
	return true
}

// installed gives those of the programs that are there.
func installed(programs ...string) []string {
	found := []string{}
	for _, p := range programs {
		if path, err := command.Look(p); err == nil || errors.Is(err, os.ErrPermission) {
			found = append(found, cmp.Or(path, p))
		}
	}
	return found
}

// shorten keeps a foreign text small.
func shorten(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most]
	}
	return s
}
