package bird

import (
	"strings"
	"testing"

	"vouch/routers"
	"vouch/routers/lab"
)

// 2.0.7 takes every other change of a function for none, and cannot tell what it has sent: what it was made to
// say is said again. Here a function of the operator's asks the set. The core is looked at by settle.
func TestFunctionThatSeemsTheSame(t *testing.T) {
	for _, r := range lab.BIRDs {
		t.Run(r.String(), func(t *testing.T) {
			t.Parallel()
			p := openPair(t, r, StyleList)
			families := []string{"4", "6"}
			for i, b := range p.birds {
				text, err := b.Config()
				fatal(t, err)
				if r.Split() {
					families = []string{"46"[i : i+1]}
				}
				functions := ""
				for _, f := range families {
					text = strings.ReplaceAll(text, "net ~ PFX"+f, "pass"+f+"()")
					functions += "function pass" + f + "() " + map[bool]string{true: "-> bool "}[r == lab.BIRD217 || r == lab.BIRD3] + "{ return net ~ PFX" + f + "; }\n"
				}
				include, rest, _ := strings.Cut(text, "\n") // the functions rest on what it defines
				fatal(t, b.WriteConfig(include+"\n"+functions+rest))
				fatal(t, b.Configure(t.Context()))
			}
			for range 2 {
				p.settle(t, routers.Announced)
				p.settle(t, routers.Degraded)
				p.settle(t, routers.Withdrawn)
			}
		})
	}
}
