package frr

import (
	"net/netip"
	"testing"

	"vouch/routers"

	"github.com/google/go-cmp/cmp"
)

// Every neighbour of the family is told of, and why it is not sent the prefix.
func TestPeers(t *testing.T) {
	const idle = "the session is not established (Active)"
	sent := routers.Peer{Name: "10.0.1.1", Stage: routers.Advertised}
	not := func(name, why string) routers.Peer {
		return routers.Peer{Name: name, Stage: routers.Selected, Detail: why}
	}
	for _, release := range releasesOf {
		for state, c := range map[string]struct {
			stage  routers.Stage
			v4, v6 []routers.Peer
		}{
			"peers":    {routers.Advertised, []routers.Peer{sent, not("10.0.1.9", idle)}, []routers.Peer{sent}},
			"filtered": {routers.Selected, []routers.Peer{not("10.0.1.1", "established, but not sent: prefix-list NONE, or not yet"), not("10.0.1.9", idle)}, []routers.Peer{sent}},
			"policy": {routers.Selected, []routers.Peer{not("10.0.1.1", "without an outbound policy nothing is sent to it (bgp ebgp-requires-policy): give it a route-map out"), not("10.0.1.9", idle)},
				[]routers.Peer{not("10.0.1.1", "without an outbound policy nothing is sent to it (bgp ebgp-requires-policy): give it a route-map out")}},
			"shut": {routers.Selected, []routers.Peer{not("10.0.1.1", "the session is not established (Idle (Admin))"), not("10.0.1.9", idle)}, []routers.Peer{not("10.0.1.1", "the session is not established (Idle (Admin))")}},
		} {
			os, err := recording(t, release+"/bgpd-"+state).router(Options{Method: MethodNetwork}).Observe(t.Context(), []netip.Prefix{p4, p6})
			if err != nil || os[0].Stage != c.stage {
				t.Errorf("%s %s: %v, %+v", release, state, err, os[0])
			}
			if diff := cmp.Diff(c.v4, os[0].Peers) + cmp.Diff(c.v6, os[1].Peers); diff != "" {
				t.Errorf("%s %s: %s", release, state, diff)
			}
		}
		// What nobody was to be sent has no peers, and a list that cannot be read hides none that were.
		os, _ := recording(t, release+"/bgpd-absent").router(Options{Method: MethodNetwork}).Observe(t.Context(), []netip.Prefix{p4})
		cut, err := recording(t, release+"/bgpd-peers").edit("bgpd", "summary", func(string) string { return "" }).router(Options{Method: MethodNetwork}).Observe(t.Context(), []netip.Prefix{p4})
		if diff := cmp.Diff([]routers.Peer{sent}, cut[0].Peers); diff != "" || err != nil || len(os[0].Peers) > 0 {
			t.Errorf("%s: %v, %v\n%s", release, err, os[0].Peers, diff)
		}
	}
}
