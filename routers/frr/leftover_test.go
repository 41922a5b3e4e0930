package frr

import (
	"context"
	"os"
	"testing"

	"vouch/routers/frr/vty"
)

// What a killed zebra left in the kernel is entered and taken away; what is configured is just taken away.
func TestLeftoversAreCleared(t *testing.T) {
	for release, daemon := range map[string]string{"8.4.4": "staticd", "10.3": "mgmtd"} {
		o := Options{Method: MethodStatic, SocketDir: t.TempDir()}
		if daemon == mgmtd {
			if err := os.WriteFile(vty.Path(o.SocketDir, mgmtd), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		node := daemon + ": configure terminal: "
		const no = "no ip route 10.53.54.1/32 blackhole"
		state := func(zebra, config string) *replay {
			return recording(t, release+"/zebra-"+zebra, release+"/"+daemon+"-"+config)
		}
		cleared := []string{node + no, node + "ip route 10.53.54.1/32 blackhole", node + no}
		checkApply(t, state("static", "empty"), o, withdraw(s4), cleared, nil)
		checkApply(t, state("static", "static"), o, withdraw(s4), []string{node + no}, nil)
		checkApply(t, state("absent", "empty"), o, withdraw(s4), []string{node + no}, nil)
		checkApply(t, state("static-foreign", "empty"), o, withdraw(s4), []string{node + no}, nil)
		checkApply(t, state("static", "empty").fail("zebra"), o, withdraw(s4), []string{node + no}, nil)
	}
}

// When it is not known what is configured, nothing is entered.
func TestLeftoversNeedTheConfiguration(t *testing.T) {
	r := recording(t, "zebra-static", "staticd-empty")
	s := static{talk: r.talk, daemon: func() string { return "staticd" }}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.withdraw(ctx, withdraw(s4)); err == nil || len(r.changes) != 0 {
		t.Errorf("%v, asked for %v", err, r.asked())
	}
}
