package vyos

import (
	"path/filepath"
	"testing"

	"vouch/routers"
	"vouch/routers/vyos/vyostest"
)

var styles = []string{vyostest.Incremental, vyostest.RerenderStatic, vyostest.RerenderLate}

// Saving is for who asks for it, and comes after a commit alone.
func TestSave(t *testing.T) {
	b := open(t, vyostest.Options{})
	for i, via := range []string{ViaConfig, ViaVbash} {
		r := b.router(Options{Method: MethodStatic, Via: via, Save: true})
		b.announced(r, one)
		b.calls("vyos-save-config.py", 2*i+1)
		b.must(b.apply(r, routers.Announced, one))
		b.calls("vyos-save-config.py", 2*i+1)
		b.withdrawn(r, one)
		b.calls("vyos-save-config.py", 2*i+2)
	}
	for _, via := range []string{ViaConfig, ViaVbash} { // VyOS would write an empty configuration
		done, release := b.heldUp("my_commit", b.router(Options{Method: MethodStatic, Via: via, Save: true}), routers.Announced, one)
		b.system.Boot("")
		release()
		b.wantError(<-done, routers.ErrUnavailable, "boot")
		b.system.Boot("0")
		b.calls("vyos-save-config.py", 4)
		b.withdrawn(b.router(Options{Method: MethodStatic}), one)
	}
	b.system.Fault(vyostest.CommitRefused, 1, "no")
	b.wantError(b.apply(b.router(Options{Method: MethodStatic, Save: true}), routers.Announced, one), routers.ErrRefused)
	b.calls("vyos-save-config.py", 4)
}

// What is saved while a commit-confirm is pending is what VyOS would boot to take that back.
func TestSaveWaitsForConfirm(t *testing.T) {
	b := open(t, vyostest.Options{})
	for i, via := range []string{ViaConfig, ViaVbash} {
		r := b.router(Options{Method: MethodStatic, Via: via, Save: true})
		b.announced(r, one)
		confirm, _ := b.system.CommitConfirm("set system host-name r" + via)
		b.wantError(b.apply(r, routers.Withdrawn, one), routers.ErrBusy, "committed, but not saved", "commit-confirm")
		b.calls("vyos-save-config.py", 3*i+1)
		b.becomes(r, routers.Absent, false, one)
		confirm()
		b.announced(r, one)
		b.withdrawn(r, one)
		b.calls("vyos-save-config.py", 3*i+3)
	}
}

func TestStaticLife(t *testing.T) {
	for _, via := range []string{ViaConfig, ViaVbash} {
		for _, style := range styles {
			t.Run(via+" "+style, func(t *testing.T) {
				b := open(t, vyostest.Options{Style: style, Null0: style == vyostest.Incremental})
				r := b.router(Options{Method: MethodStatic, Via: via})
				b.becomes(r, routers.Absent, false, both...)
				for _, to := range []struct {
					want     routers.Want
					stage    routers.Stage
					degraded bool
					commits  int
				}{
					{routers.Announced, routers.Advertised, false, 1}, {routers.Announced, routers.Advertised, false, 0},
					{routers.Degraded, routers.Advertised, true, 1}, {routers.Degraded, routers.Advertised, true, 0},
					{routers.Announced, routers.Advertised, false, 1}, {routers.Withdrawn, routers.Absent, false, 1},
					{routers.Withdrawn, routers.Absent, false, 0},
					{routers.Degraded, routers.Advertised, true, 1}, {routers.Withdrawn, routers.Absent, false, 1},
				} {
					before := len(b.system.CallsOf("my_commit"))
					sessions := len(b.system.CallsOf("setupSession"))
					b.must(b.apply(r, to.want, both...))
					b.becomes(r, to.stage, to.degraded, both...)
					if got := len(b.system.CallsOf("my_commit")) - before; got != to.commits {
						t.Errorf("%s: %d commits, want %d", to.want, got, to.commits)
					}
					if got := len(b.system.CallsOf("setupSession")) - sessions; got != to.commits {
						t.Errorf("%s: %d sessions, want %d", to.want, got, to.commits)
					}
					b.clean()
				}
				if left, _ := filepath.Glob(b.system.Path("/run/vouch-*")); len(left) > 0 {
					t.Errorf("files are left: %q", left)
				}
				for _, c := range b.system.Calls() {
					if c.Verb() == "my_commit" || c.Verb() == "my_set" {
						if c.GID != vyostest.Group || c.Umask != 0o002 {
							t.Errorf("%s ran with group %d and umask %o", c.Verb(), c.GID, c.Umask)
						}
					}
				}
			})
		}
	}
}
