package vyos

import (
	"errors"
	"strings"
	"testing"

	"vouch/routers"
	"vouch/routers/vyos/vyostest"
)

// A commit of others that goes on for long has FRR's routes made anew long before its end: what was withdrawn
// meanwhile is taken out again while its lock lasts, whose turn it is not.
func TestWithdrawBesideACommit(t *testing.T) {
	b := open(t, vyostest.Options{})
	for _, via := range []string{ViaConfig, ViaVbash} {
		r := b.router(Options{Method: MethodStatic, Via: via})
		b.announced(r, both...)
		release := b.system.HoldLock()
		done := b.applying(r, routers.Withdrawn, both...)
		for range 2 {
			b.core(false, both...)
			for _, p := range both {
				b.system.Gain(routeLine(p))
			}
			b.wait("FRR to have none of it", func() error {
				if text := b.system.Vtysh("show running-config"); strings.Contains(text, " blackhole") {
					return errors.New(text)
				}
				return nil
			})
		}
		b.core(false, both...)
		release()
		b.must(<-done)
		b.becomes(r, routers.Absent, false, both...)
	}
	b.clean()
}
