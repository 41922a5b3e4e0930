package agent

import (
	"net/netip"
	"testing"

	"vouch/agent/internal/config"
)

// What a prefix goes by in BIRD's configuration is read only at start, as [router] is: the driver would
// look after the new symbol alone, and leave the old one announced.
func TestReloadRefusesOtherSymbols(t *testing.T) {
	err := fixed(config.Changes{Symbols: []netip.Prefix{netip.MustParsePrefix("2001:db8::53/128")}}, "vouch.toml")
	const want = "vouch.toml: 2001:db8::53/128 would go by another symbol in BIRD's configuration, and stay announced by the one it has: " +
		"drain the services, restart vouch and resume them"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if err := fixed(config.Changes{}, "vouch.toml"); err != nil {
		t.Errorf("nothing changed: %v", err)
	}
}
