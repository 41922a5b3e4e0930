package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"vouch/routers/lab"
)

// A contest is one check, against the program that a script would run for it.
type contest struct {
	Name  string   `json:"name"`
	Kind  string   `json:"kind"`
	TOML  string   `json:"toml"`
	Rival []string `json:"rival"` // the command
	As    string   `json:"as"`    // what it is called in the report
	Lacks string   `json:"lacks"` // why the check cannot be measured here
	// Unable is why the rival that is installed cannot do it.
	Unable string `json:"unable"`
}

// withoutHTTP3 says that curl has no HTTP/3, as in Debian 12; empty: it has, or there is no curl.
func withoutHTTP3() string {
	out, err := exec.Command("curl", "-V").Output()
	if err != nil || strings.Contains(string(out), "HTTP3") {
		return ""
	}
	return "this curl has no HTTP/3"
}

// contests has at least one of each kind.
func (g *ground) contests() []contest {
	all := append(g.nameContests(), g.webContests()...)
	return append(append(all, g.streamContests()...), g.localContests()...)
}

func (g *ground) nameContests() []contest {
	dig := func(more ...string) []string {
		return append([]string{"dig", "+tries=1", "+time=1", "@127.0.0.1", lab.HealthName, "A"}, more...)
	}
	question := fmt.Sprintf("name = %q\nqtype = \"A\"\n", lab.HealthName)
	tls := fmt.Sprintf("ca = %q\nserver_name = %q\n", g.paper.cert, serverName)
	return []contest{
		{Name: "dns, udp", Kind: "dns", TOML: question + `server = "127.0.0.1:53"`, Rival: dig()},
		{Name: "dns, tcp", Kind: "dns", TOML: question + "proto = \"tcp\"\nserver = \"127.0.0.1:53\"", Rival: dig("+tcp"), As: "dig +tcp"},
		{Name: "dns, tls", Kind: "dns", TOML: question + tls + "proto = \"tls\"\nserver = \"127.0.0.1:853\"",
			Rival: dig("+tls-ca="+g.paper.cert, "+tls-hostname="+serverName), As: "dig +tls-ca"},
		{Name: "dns, https", Kind: "dns", TOML: question + tls + "proto = \"https\"\nserver = \"127.0.0.1:8443\"",
			Rival: dig("-p", "8443", "+https", "+tls-ca="+g.paper.cert, "+tls-hostname="+serverName), As: "dig +https"},
	}
}

func (g *ground) webContests() []contest {
	url := "https://" + serverName + "/"
	curl := func(more ...string) []string {
		return append([]string{"curl", "-sf", "-m", "1", "-o", filepath.Join(g.dir, "page"), "--cacert", g.paper.cert,
			"--connect-to", serverName + ":443:127.0.0.1:443"}, more...)
	}
	secure := fmt.Sprintf("url = %q\nconnect = \"127.0.0.1:443\"\nca = %q\n", url, g.paper.cert)
	lacks := g.lacks["nginx"]
	return []contest{
		{Name: "http, 1.1", Kind: "http", TOML: `url = "http://127.0.0.1/"`, Rival: curl("http://127.0.0.1/"), Lacks: lacks},
		{Name: "http, 1.1 with TLS", Kind: "http", TOML: secure + `version = "1.1"`, Rival: curl("--http1.1", url), As: "curl --http1.1", Lacks: lacks},
		{Name: "http, h2", Kind: "http", TOML: secure + `version = "2"`, Rival: curl("--http2", url), As: "curl --http2", Lacks: lacks},
		{Name: "http, h3", Kind: "http", TOML: fmt.Sprintf("url = %q\nconnect = \"127.0.0.1:8444\"\nversion = \"3\"\nca = %q\n", url, g.paper.cert),
			Rival: []string{"curl", "-sf", "-m", "1", "-o", filepath.Join(g.dir, "page"), "--http3-only", "--cacert", g.paper.cert,
				"--connect-to", serverName + ":443:127.0.0.1:8444", url}, As: "curl --http3-only", Unable: withoutHTTP3()},
		{Name: "tls", Kind: "tls", TOML: fmt.Sprintf("address = \"127.0.0.1:443\"\nca = %q\nserver_name = %q\n", g.paper.cert, serverName),
			Rival: []string{"openssl", "s_client", "-connect", "127.0.0.1:443", "-servername", serverName, "-verify_hostname", serverName,
				"-CAfile", g.paper.cert, "-verify_return_error"}, As: "openssl s_client", Lacks: lacks},
	}
}

func (g *ground) streamContests() []contest {
	bash := func(proto, talk string) []string {
		return []string{"bash", "-c", fmt.Sprintf("exec 3<>/dev/%s/%s && %s", proto, strings.Replace(g.greeter, ":", "/", 1), talk)}
	}
	return []contest{
		{Name: "tcp, greeted", Kind: "tcp", TOML: fmt.Sprintf("address = %q\nexpect = %q", g.greeter, greeting),
			Rival: bash("tcp", `read -r -t 1 -n 9 line <&3 && [[ $line == "`+greeting+`" ]]`), As: "bash, /dev/tcp"},
		{Name: "udp, answered", Kind: "udp", TOML: fmt.Sprintf("address = %q\nsend = \"PING\\n\"\nexpect = \"PING\"", g.greeter),
			// bash itself reads a byte at a time, and loses the rest of the datagram
			Rival: bash("udp", `echo PING >&3 && [[ $(timeout 1 head -n 1 <&3) == PING ]]`), As: "bash, /dev/udp, head"},
		{Name: "icmp", Kind: "icmp", TOML: fmt.Sprintf("address = %q", routerAddr), Rival: []string{"ping", "-c", "1", "-W", "1", routerAddr}},
		{Name: "mtu, ping of 1280 bytes", Kind: "mtu", TOML: fmt.Sprintf("destinations = [%q]", routerAddr),
			Rival: []string{"ping", "-c", "1", "-W", "1", "-M", "do", "-s", "1252", routerAddr}, As: "ping -M do"},
		{Name: "ntp", Kind: "ntp", TOML: `server = "127.0.0.1:123"`, Lacks: g.lacks["chronyd"],
			Rival: []string{"chronyd", "-Q", "-t", "2", "-f", "/dev/null", "server 127.0.0.1 iburst maxsamples 1"}, As: "chronyd -Q"},
	}
}

func (g *ground) localContests() []contest {
	unit := contest{Name: "systemd", Kind: "systemd", TOML: `unit = "systemd-journald.service"`, Rival: []string{"systemctl", "is-active", "systemd-journald.service"}, As: "systemctl is-active"}
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		unit.Lacks = "there is no systemd on this machine"
	}
	return []contest{
		{Name: "route", Kind: "route", Rival: []string{"ip", "route", "get", "203.0.113.1"}, As: "ip route get"},
		{Name: "address", Kind: "address", TOML: fmt.Sprintf("address = %q\ninterface = \"eth0\"", hostAddr),
			Rival: []string{"ip", "-j", "addr", "show", "dev", "eth0"}, As: "ip -j addr"},
		unit,
		{Name: "file", Kind: "file", TOML: fmt.Sprintf("path = %q", g.paper.cert), Rival: []string{"test", "-e", g.paper.cert}, As: "test -e"},
		{Name: "exec, true", Kind: "exec", TOML: `command = ["true"]`, Rival: []string{"true"}},
	}
}

// called is the rival's name in the report.
func (c contest) called() string { return cmp.Or(c.As, c.Rival[0]) }
