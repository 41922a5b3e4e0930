package cli_test

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/miekg/dns"
	"github.com/rogpeppe/go-internal/testscript"

	"vouch/agent"
	"vouch/agent/internal/cli"
	"vouch/checks/checktest"
)

// whole is vouch as it is installed, with real checks.
const whole = "whole-vouch"

func init() {
	cli.Programs[whole] = func() { os.Exit(cli.Run(os.Args[1:], os.Stdout, os.Stderr, agent.Commands("1.2.3"))) }
}

// cmdExpand puts the environment's values into a file: expand FILE.
func cmdExpand(ts *testscript.TestScript, _ bool, args []string) {
	text := os.Expand(ts.ReadFile(args[0]), ts.Getenv)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o644))
}

// mute gives the address of a UDP socket that nobody reads.
func mute(t *testing.T) netip.AddrPort {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pc.Close() })
	return pc.LocalAddr().(*net.UDPAddr).AddrPort()
}

// The scripts of testdata/whole meet real servers, which are named in their environment.
func TestWholeScripts(t *testing.T) {
	servers := map[string]netip.AddrPort{
		"ANSWERS": checktest.DNS(t, "127.0.0.1", checktest.Answer(dns.RcodeSuccess), checktest.Answer(dns.RcodeSuccess)),
		"REFUSES": checktest.DNS(t, "127.0.0.1", checktest.Answer(dns.RcodeRefused), nil),
		"SILENT":  checktest.DNS(t, "127.0.0.1", checktest.Silent(), nil),
		"MUTE":    mute(t),
		"CLOSED":  checktest.Closed(t, "127.0.0.1"),
		"HOSTILE": checktest.TCP(t, "127.0.0.1", func(c net.Conn) { _, _ = c.Write([]byte("220 \x1b[2J\x1b]0;owned\x07 | x=1\r\n\xff\xfe")) }),
	}
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "whole"),
		Setup: func(e *testscript.Env) error {
			e.Setenv("GORACE", "atexit_sleep_ms=0") // it waits a second at the end of each command otherwise
			e.Setenv("VOUCH", whole)
			e.Setenv("C", "--config="+filepath.Join(e.WorkDir, "vouch.toml"))
			for name, at := range servers {
				e.Setenv(name, at.String())
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": cli.CmdExits, "expand": cmdExpand},
	})
}
