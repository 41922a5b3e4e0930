package unit

import (
	"testing"

	"vouch/checks/checktest"
)

// A unit whose extensions are being exchanged while it runs (systemd 257) is up; one that is on its way out, or in
// a state that is not known here, is not.
func TestRefreshing(t *testing.T) {
	s := checktest.NewSystemd(t)
	c := on(t, s.Socket, Spec{Unit: "unbound"})
	for active, want := range map[string]string{
		"refreshing": "", "reloading": "", "active": "",
		"maintenance": "unusable: is maintenance (refresh-extensions)", "deactivating": "unusable: is deactivating (refresh-extensions)",
	} {
		s.Set(running.With("ActiveState", active, "SubState", "refresh-extensions"))
		if got := reason(check(t, c)); got != want {
			t.Errorf("%s: %q, want %q", active, got, want)
		}
	}
}
