package bird

import (
	"fmt"
	"testing"

	"vouch/routers"
	"vouch/routers/lab"
)

// A BIRD that was started anew has the routes before its sessions: what is read then is short of peers and of nothing
// else, so that nobody is said to have changed anything. On every release.
func TestOnlySessionsLackAfterRestart(t *testing.T) {
	for _, r := range lab.BIRDs {
		for _, kind := range []string{MethodAddress, StyleSwitch, StyleList} {
			t.Run(fmt.Sprint(r, "/", kind), func(t *testing.T) {
				t.Parallel()
				p := openPair(t, r, kind)
				p.settle(t, routers.Announced)
				fatal(t, p.birds[0].Restart(t.Context()))
				short := 0
				sceneWait(t, "the session", func() error {
					o := p.observed(t)[0]
					switch {
					case o.Stage == routers.Advertised:
						return nil
					case o.Stage == routers.Selected && !o.Broken && len(o.Peers) == 1 && o.Peers[0].Detail != "":
						short++
					case o.Stage != routers.Unknown:
						t.Errorf("%+v", o)
					}
					return fmt.Errorf("%+v", o)
				})
				if short == 0 {
					t.Log("the session was up before anything was read")
				}
			})
		}
	}
}
