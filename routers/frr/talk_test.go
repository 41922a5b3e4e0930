package frr

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/command"
	"vouch/routers/frr/vty"

	"github.com/google/go-cmp/cmp"
)

// What vtysh 8.4.4 wrote with -E; host and all.
const (
	echoShow = "vm# show bgp ipv4 unicast 10.9.9.9/32 json\n{\n}\nvm# show bgp ipv4 unicast 10.8.9.9/32 json\n{\n}\n"
	echoBad  = "vm# configure terminal\nvm(config)# router bgp\nvm(config-router)# address-family ipv4 unicast\n" +
		"vm(config-router-af)# no network 10.9.9.9/32\n% Can't find static route specified\n"
	echoNoBGP = "vm# configure terminal\nvm(config)# router bgp\n% No BGP process is configured\n"
)

func TestJudgeVtysh(t *testing.T) {
	show := session{daemon: "bgpd", commands: []string{"show bgp ipv4 unicast 10.9.9.9/32 json", "show bgp ipv4 unicast 10.8.9.9/32 json"}}
	change := session{
		daemon: "bgpd", enter: []string{"configure terminal", "router bgp", "address-family ipv4 unicast"},
		commands: []string{"no network 10.9.9.9/32", "network 10.9.9.8/32"},
	}
	for name, c := range map[string]struct {
		session session
		out     command.Output
		want    []vty.Reply
		class   error
		text    string
	}{
		"answers":           {show, command.Output{Stdout: []byte(echoShow)}, []vty.Reply{{Text: "{\n}\n"}, {Text: "{\n}\n"}}, nil, ""},
		"stops at the bad":  {change, command.Output{Stdout: []byte(echoBad), Code: 1}, []vty.Reply{{Status: 1, Text: "% Can't find static route specified\n"}}, nil, ""},
		"not even there":    {change, command.Output{Stdout: []byte(echoNoBGP), Code: 1}, nil, routers.ErrRefused, `"router bgp": status 1: % No BGP process`},
		"nobody answers":    {show, command.Output{Stderr: []byte("Exiting: failed to connect to any daemons.\n"), Code: 1}, nil, routers.ErrUnavailable, "failed to connect to any daemons"},
		"zero, but away":    {show, command.Output{Stdout: []byte(echoShow), Stderr: []byte("bgpd is not running\n")}, nil, routers.ErrUnavailable, "bgpd is not running"},
		"nothing":           {show, command.Output{Code: 1}, nil, routers.ErrUnavailable, "no command was run (exit status 1)"},
		"warning on stderr": {show, command.Output{Stdout: []byte(echoShow), Stderr: []byte("% Can't open configuration file /etc/frr/vtysh.conf due to 'Permission denied'.\n")}, []vty.Reply{{Text: "{\n}\n"}, {Text: "{\n}\n"}}, nil, ""},
	} {
		got, err := judgeVtysh(c.session, c.out)
		if !errors.Is(err, c.class) || err != nil && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: error %v", name, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// script makes a program of a shell script that plays vtysh.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "vtysh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestByCommand(t *testing.T) {
	s := session{daemon: "bgpd", enter: []string{"configure terminal"}, commands: []string{"network 10.0.0.1/32", "network 10.0.0.2/32"}}
	args := script(t, `echo "$@" > "$0.args"; echo "vm# configure terminal"; echo "vm(config)# network 10.0.0.1/32"; echo "vm(config)# network 10.0.0.2/32"`)
	if _, err := byCommand(Options{Vtysh: args, SocketDir: "/run/x", Timeout: time.Minute}.withDefaults())(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(args + ".args")
	if want := "-d bgpd --vty_socket /run/x -E -c configure terminal -c network 10.0.0.1/32 -c network 10.0.0.2/32\n"; err != nil || string(got) != want {
		t.Errorf("%v: %s, want %s", err, got, want)
	}
	// One that is refused does not stop the next: vtysh is run again for that.
	bad := script(t, `case "$*" in *0.1/32*) echo "vm# configure terminal"; echo "vm(config)# network 10.0.0.1/32"; echo "% no"; exit 1;; esac
echo "vm# configure terminal"; echo "vm(config)# network 10.0.0.2/32"`)
	replies, err := byCommand(Options{Vtysh: bad, Timeout: time.Minute}.withDefaults())(t.Context(), s)
	if diff := cmp.Diff([]vty.Reply{{Status: 1, Text: "% no\n"}, {}}, replies); diff != "" || err != nil {
		t.Errorf("%v: %s", err, diff)
	}
	// Silent success (the change did not take) is what the table decides on.
	for name, c := range map[string]struct {
		o     Options
		s     session
		cause error
		text  string
	}{
		"missing":  {Options{Vtysh: "/nowhere/vtysh"}, s, os.ErrNotExist, "/nowhere/vtysh: no such program: install FRR"},
		"hangs":    {Options{Vtysh: script(t, "sleep 60"), Timeout: 50 * time.Millisecond}, s, context.DeadlineExceeded, "vtysh -d bgpd does not answer within 80ms (hung?)"},
		"cut off":  {Options{Vtysh: script(t, `echo "vm# network 10.0.0.1/32"; kill -KILL $$`), Timeout: time.Minute}, s, routers.ErrUnavailable, "vtysh -d bgpd: killed by SIGKILL"},
		"left":     {Options{Vtysh: script(t, `echo "vm# configure terminal"; echo "vm# network 10.0.0.1/32"; echo "vm# network 10.0.0.2/32"; sleep 60 &`), Timeout: time.Minute}, s, command.ErrUnfinished, "vtysh: it ended, but left"},
		"too long": {Options{Vtysh: script(t, "head -c 17000000 /dev/zero"), Timeout: time.Minute}, s, routers.ErrUnavailable, "longer than 16 MiB"},
	} {
		_, err := byCommand(c.o.withDefaults())(t.Context(), c.s)
		if !errors.Is(err, routers.ErrUnavailable) || !errors.Is(err, c.cause) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	// vtysh would take a line feed for the end of a command.
	s.commands = []string{"network 10.0.0.1/32\nno router bgp"}
	if _, err := byCommand(Options{Vtysh: args}.withDefaults())(t.Context(), s); err == nil || !strings.Contains(err.Error(), "not printable") {
		t.Errorf("error %v", err)
	}
}

func TestOrElse(t *testing.T) {
	for name, c := range map[string]struct {
		first  error
		second bool
	}{
		"answers": {nil, false},
		"missing": {errors.Join(routers.ErrUnavailable, syscall.ENOENT), true},
		"denied":  {errors.Join(routers.ErrUnavailable, syscall.EACCES), true},
		"refused": {errors.Join(routers.ErrUnavailable, syscall.ECONNREFUSED), false},
		"hangs":   {errors.Join(routers.ErrUnavailable, os.ErrDeadlineExceeded), false},
		"said no": {routers.ErrRefused, false},
	} {
		second := false
		talk := orElse(
			func(context.Context, session) ([]vty.Reply, error) { return nil, c.first },
			func(context.Context, session) ([]vty.Reply, error) {
				second = true
				return nil, errors.New("no vtysh either")
			})
		_, err := talk(t.Context(), session{})
		if second != c.second || !errors.Is(err, c.first) || second && !strings.Contains(err.Error(), "no vtysh either") {
			t.Errorf("%s: second %v, error %v", name, second, err)
		}
	}
}

// The commands of a session are not sent unless the way to their node was taken.
func TestConverse(t *testing.T) {
	ours, daemon := net.Pipe()
	done := make(chan string)
	go func() {
		defer close(done)
		defer daemon.Close()
		buf := make([]byte, 4096)
		n, _ := daemon.Read(buf)
		_, _ = daemon.Write([]byte("\x00\x00\x00\x00\x00\x00\x00\x00% No BGP process is configured\n\x00\x00\x00\x0d"))
		more, _ := daemon.Read(buf[n:])
		done <- string(buf[:n+more])
	}()
	c := vty.New(ours, time.Minute)
	_, err := converse(t.Context(), c, session{"bgpd", []string{"configure terminal", "router bgp"}, []string{"network 10.0.0.1/32"}, false})
	c.Close()
	if sent := <-done; sent != "enable\x00configure terminal\x00router bgp\x00" {
		t.Errorf("sent %q", sent)
	}
	if refusal := (*vty.Refusal)(nil); !errors.As(err, &refusal) || err.Error() != `bgpd: "router bgp": status 13: % No BGP process is configured` {
		t.Errorf("error %v", err)
	}
}

// mgmtd forgets what comes while it commits: a command is sent when the one before was answered.
func TestOneByOne(t *testing.T) {
	ours, daemon := net.Pipe()
	done := make(chan []string)
	go func() {
		defer daemon.Close()
		var sent []string
		buf := make([]byte, 4096)
		for {
			n, err := daemon.Read(buf)
			if err != nil {
				done <- sent
				return
			}
			sent = append(sent, string(buf[:n]))
			answers := strings.Repeat("\x00\x00\x00\x00", min(strings.Count(string(buf[:n]), "\x00"), 2))
			_, _ = daemon.Write([]byte(answers))
		}
	}()
	c := vty.New(ours, time.Minute)
	replies, err := converse(t.Context(), c, session{"mgmtd", []string{"configure terminal"}, []string{"ip route 10.0.0.1/32 blackhole", "ip route 10.0.0.2/32 blackhole", "ip route 10.0.0.3/32 blackhole"}, false})
	c.Close()
	want := []string{"enable\x00configure terminal\x00", "ip route 10.0.0.1/32 blackhole\x00", "ip route 10.0.0.2/32 blackhole\x00", "ip route 10.0.0.3/32 blackhole\x00"}
	if sent := <-done; err != nil || len(replies) != 3 || !slices.Equal(sent, want) {
		t.Errorf("%v, %d replies, sent %q", err, len(replies), sent)
	}
}

// Many commands are committed together; when some are refused each is put for itself.
func TestInBulk(t *testing.T) {
	many := make([]string, 150)
	for i := range many {
		many[i] = fmt.Sprintf("ip route 10.0.0.%d/32 blackhole", i)
	}
	for name, c := range map[string]struct {
		daemon, refused string
		want            []string // what is sent beside the commands
		sent            int      // commands
		class           error
	}{
		"staticd": {"staticd", "", slices.Repeat([]string{"enable", "configure terminal", "XFRR_start_configuration", "XFRR_end_configuration", "end"}, 2), 150, nil},
		"mgmtd":   {"mgmtd", "", slices.Repeat([]string{"enable", "configure terminal file-lock", "XFRR_start_configuration", "XFRR_end_configuration", "end"}, 2), 150, nil},
		"refused": {"staticd", "XFRR_end_configuration", []string{"enable", "configure terminal", "XFRR_start_configuration", "XFRR_end_configuration", "end", "end", "enable", "configure terminal"}, 250, nil},
		"locked":  {"mgmtd", "configure terminal file-lock", []string{"enable", "configure terminal file-lock", "XFRR_start_configuration"}, 0, routers.ErrBusy},
	} {
		ours, daemon := net.Pipe()
		done := make(chan []string)
		go func() {
			var sent []string
			in := bufio.NewReaderSize(daemon, 64<<10)
			for {
				command, err := in.ReadString(0)
				if err != nil {
					done <- sent
					return
				}
				command = strings.TrimSuffix(command, "\x00")
				sent = append(sent, command)
				answer := "\x00\x00\x00\x00"
				if command == c.refused {
					answer = "locked by another session\x00\x00\x00\x0d"
					if c.class == nil {
						answer = "no\x00\x00\x00\x0d"
					}
				}
				_, _ = daemon.Write([]byte(answer))
			}
		}()
		conn := vty.New(ours, time.Minute)
		replies, err := converse(t.Context(), conn, session{c.daemon, []string{"configure terminal"}, many, true})
		conn.Close()
		sent := <-done
		rest := slices.DeleteFunc(slices.Clone(sent), func(s string) bool { return strings.HasPrefix(s, "ip route") })
		if !errors.Is(err, c.class) || err == nil && len(replies) != len(many) || !slices.Equal(rest, c.want) || len(sent)-len(rest) != c.sent {
			t.Errorf("%s: %v, %d replies, %d commands, %q", name, err, len(replies), len(sent)-len(rest), rest)
		}
	}
}

// A daemon on a real socket that answers with half a reply, or with garbage, says nothing.
func TestBySocketSpoiled(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing":     "",
		"half":        "\x00\x00\x00\x00{ \"routerId\": \"10.0.1.2\", \"Router Link Sta",
		"half status": "\x00\x00\x00\x00{}\n\x00\x00\x00",
		"garbage":     "HTTP/1.1 400 Bad Request\r\n\r\n",
		"fewer":       "\x00\x00\x00\x00{}\n\x00\x00\x00\x00{}\n\x00\x00\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			ln, err := net.Listen("unix", vty.Path(dir, "ospfd"))
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				buf := make([]byte, 4096)
				_, _ = conn.Read(buf)
				_, _ = conn.Write([]byte(answer))
			}()
			o := Options{Via: ViaSocket, SocketDir: dir, Timeout: 5 * time.Second}.withDefaults()
			r := newRouter(o, newTalker(o)).with(on(p4))
			os, err := r.Observe(t.Context(), []netip.Prefix{p4})
			ln.Close()
			<-done
			if !errors.Is(err, routers.ErrUnavailable) || os[0].Stage != routers.Unknown || !strings.Contains(os[0].Detail, "the address is on lo") {
				t.Errorf("%v: %+v", err, os)
			}
		})
	}
}
