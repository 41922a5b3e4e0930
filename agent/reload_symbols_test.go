package agent

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
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

// A reload that would bring a check which cannot pass on this machine is refused: it would withdraw its
// service. One that was there before does not keep the rest from coming into force.
func TestReloadRefusesWhatIsNotHere(t *testing.T) {
	load := func(source, fall string) *config.Config {
		t.Helper()
		file := filepath.Join(t.TempDir(), "vouch.toml")
		text := "[router]\ndaemon = \"kernel\"\n[service.a]\nprefixes = [\"192.0.2.53/32\"]\nfall = " + fall +
			"\n[service.a.check.up]\ntype = \"tcp\"\naddress = \"127.0.0.1:53\"\nsource = \"" + source + "\"\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	err := refusal(load("127.0.0.1", "3"), load("198.51.100.7", "3"))
	if err == nil || !strings.Contains(err.Error(), "vouch.toml:9:1: service.a.check.up.source: the address is not on this node") {
		t.Errorf("a source that is not here: %v", err)
	}
	if err := refusal(load("198.51.100.7", "3"), load("198.51.100.7", "4")); err != nil {
		t.Errorf("it was there before: %v", err)
	}
}
