package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"vouch/routers"
	"vouch/routers/frr"
	"vouch/routers/lab"
)

// thousand is a fleet's worth of prefixes on one node, and scripted how many of them a script changes, once,
// as all would take minutes. Half of the others are there meanwhile: with static routes each change costs
// the more the more there are.
const thousand, scripted = 1000, 100

func thousandPrefixes() []netip.Prefix {
	ps := make([]netip.Prefix, thousand)
	for i := range ps {
		ps[i] = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 60, byte(i >> 8), byte(i)}), 32)
	}
	return ps
}

// bulkNetwork has BGP, and lets all prefixes pass.
func bulkNetwork(r lab.Release) lab.AnycastOptions {
	return lab.AnycastOptions{BGP: true, Nodes: r, NoUnbound: true,
		NodeConfig: " no bgp network import-check\nexit\nip prefix-list ANYCAST permit 10.60.0.0/16 ge 32\n"}
}

// frr announces and withdraws a thousand prefixes by the driver, and has a script do the same by one vtysh
// for each, until FRR's tables say so of all.
func (b *bench) frr(ctx context.Context, r *report) error {
	methods := []string{frr.MethodNetwork, frr.MethodStatic}
	shown.begin("frr", 2*(b.few()+1)*len(lab.FRRs)*len(methods))
	var failed []error
	for _, release := range lab.FRRs {
		st := standing(ctx, site{release: release, network: bulkNetwork(release)}, nil)
		for _, m := range methods {
			x := bulk{stand: st, method: m, prefixes: thousandPrefixes()}
			failed = append(failed, x.measure(ctx, b.few(), r))
		}
		failed = append(failed, st.close())
	}
	return errors.Join(failed...)
}

// A bulk is a thousand prefixes on the first node.
type bulk struct {
	*stand
	method   string
	prefixes []netip.Prefix
	router   routers.Router
}

// measure adds the rows of one method.
func (x *bulk) measure(ctx context.Context, runs int, r *report) error {
	own, script := map[routers.Want]*tally{}, map[routers.Want]*tally{}
	for _, w := range []routers.Want{routers.Announced, routers.Withdrawn} {
		own[w], script[w] = &tally{}, &tally{}
	}
	err := x.err
	if err == nil {
		err = x.run(ctx, runs, own, script)
	}
	var failed []error
	for _, w := range []routers.Want{routers.Announced, routers.Withdrawn} {
		own[w].cut(err)
		script[w].cut(err)
		of, short := r.tally(fmt.Sprintf("%s %s: %d prefixes %s and read to be, one session", x.name, x.method, thousand, w), *own[w], runs)
		short2 := r.insteadTally(of, fmt.Sprintf("vtysh -d %s for each (%d measured, times %d)", x.daemon(), scripted, thousand/scripted), *script[w], 1)
		failed = append(failed, short, short2)
	}
	return errors.Join(failed...)
}

func (x *bulk) run(ctx context.Context, runs int, own, script map[routers.Want]*tally) (err error) {
	x.router = frr.New(frr.Options{Method: x.method, Protocol: frr.ProtocolBGP, SocketDir: x.lab.Nodes[0].FRR.SocketDir()})
	defer func() { err = errors.Join(err, x.router.Close()) }()
	for range runs {
		for _, w := range []routers.Want{routers.Announced, routers.Withdrawn} {
			own[w].note(x.bySession(ctx, w))
			shown.step()
		}
	}
	half := x.prefixes[scripted : scripted+(thousand-scripted)/2]
	if err := settled(ctx, x.router, half, routers.Announced); err != nil {
		return err
	}
	for _, w := range []routers.Want{routers.Announced, routers.Withdrawn} {
		script[w].note(x.byScript(ctx, w))
		shown.step()
	}
	return settled(ctx, x.router, half, routers.Withdrawn)
}

// bySession changes all, none of which may be as wanted before.
func (x *bulk) bySession(ctx context.Context, w routers.Want) (time.Duration, error) {
	if err := x.before(ctx, x.prefixes, w); err != nil {
		return 0, err
	}
	began := time.Now()
	err := settled(ctx, x.router, x.prefixes, w)
	return time.Since(began), err
}

// byScript changes some, and gives what all would take at that pace.
func (x *bulk) byScript(ctx context.Context, w routers.Want) (time.Duration, error) {
	some := x.prefixes[:scripted]
	if err := x.before(ctx, some, w); err != nil {
		return 0, err
	}
	lines := make([]string, len(some))
	for i, p := range some {
		lines[i] = p.String()
	}
	began := time.Now()
	args := x.script(w)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a vtysh that hangs is to go with the shell
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("the script of vtysh -d %s: %w: %s", x.daemon(), err, out)
	}
	err := read(ctx, x.router, some, w)
	return time.Since(began) * thousand / scripted, err
}

// before has all be the opposite of w, whatever the run before left. Otherwise nothing is measured.
func (x *bulk) before(ctx context.Context, ps []netip.Prefix, w routers.Want) (err error) {
	const attempts, each = 6, 10 * time.Second
	for range attempts {
		attempt, cancel := context.WithTimeout(ctx, each)
		err = settled(attempt, x.router, ps, routers.Announced+routers.Withdrawn-w)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return fmt.Errorf("before they are %s: %w", w, err)
}

// daemon is whom a script tells.
func (x *bulk) daemon() string {
	switch {
	case x.method == frr.MethodNetwork:
		return "bgpd"
	case x.release == lab.FRR10:
		return "mgmtd"
	}
	return "staticd"
}

// script is a shell that runs vtysh for each prefix it reads. Where FRR has a root of its own it runs there.
func (x *bulk) script(w routers.Want) []string {
	f := x.lab.Nodes[0].FRR
	shell := []string{"sh", "-c", loop(f.SocketDir(), x.daemon(), commands(x.method, w))}
	if x.release == lab.FRR10 {
		return slices.Concat([]string{"nsenter", "-t", fmt.Sprint(f.PID("zebra")), "-m", "-r", "--"}, shell)
	}
	return shell
}

// commands change the prefix in $p.
func commands(method string, w routers.Want) []string {
	cs := []string{"configure terminal", "ip route $p blackhole"}
	if method == frr.MethodNetwork {
		cs = []string{"configure terminal", "router bgp 65001", "address-family ipv4 unicast", "network $p"}
	}
	if last := len(cs) - 1; w == routers.Withdrawn {
		cs[last] = "no " + cs[last]
	}
	return cs
}

// loop is the text of a script that ends at the first vtysh which fails.
func loop(dir, daemon string, commands []string) string {
	vtysh := fmt.Sprintf("vtysh --vty_socket %[1]s --config_dir %[1]s -d %[2]s", dir, daemon)
	for _, c := range commands {
		vtysh += fmt.Sprintf(" -c %q", c)
	}
	return "while read -r p; do " + vtysh + " </dev/null || exit; done"
}
