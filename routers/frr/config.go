package frr

import (
	"context"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"vouch/routers"
)

// running reads the daemon's configuration as it runs.
func running(ctx context.Context, talk talker, daemon string) (string, error) {
	replies, err := ask(ctx, talk, daemon, "show running-config")
	if err != nil {
		return "", err
	}
	if !strings.Contains(replies[0].Text, "frr version") {
		return "", routers.Errorf(routers.ErrUnavailable, "%s: show running-config: not a configuration: %s", daemon, excerpt(replies[0].Text))
	}
	return replies[0].Text, nil
}

// blocks calls each with the words of every line in the blocks whose first line head knows. A block ends
// where a line is not indented.
func blocks(text string, head func(words []string) bool, each func(words []string)) {
	inside := false
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case line[0] != ' ':
			inside = head(words)
		case inside:
			each(words)
		}
	}
}

// ofInterface knows the block of an interface of the default VRF.
func ofInterface(name string) func([]string) bool {
	return func(words []string) bool { return slices.Equal(words, []string{"interface", name}) }
}

// parseStated reads the addresses that the running configuration of zebra, or mgmtd, has of an interface.
func parseStated(text, iface string) map[netip.Prefix]bool {
	stated := map[netip.Prefix]bool{}
	blocks(text, ofInterface(iface), func(words []string) {
		if len(words) >= 3 && (words[0] == "ip" || words[0] == "ipv6") && words[1] == "address" {
			if p, err := netip.ParsePrefix(words[2]); err == nil {
				stated[p] = true
			}
		}
	})
	return stated
}

// costs are what the running configurations of ospfd and ospf6d set for one interface; 0 is nothing.
type costs struct {
	v4, v6 int
	own    map[netip.Addr]int // of single IPv4 addresses
}

// parseCosts reads the running configuration of either daemon.
func parseCosts(text, iface string) costs {
	c := costs{own: map[netip.Addr]int{}}
	blocks(text, ofInterface(iface), func(words []string) {
		if len(words) < 4 || words[2] != "cost" {
			return
		}
		n, err := strconv.Atoi(words[3])
		switch {
		case err != nil:
		case words[0] == "ipv6" && words[1] == "ospf6":
			c.v6 = n
		case words[0] != "ip" || words[1] != "ospf":
		case len(words) == 4:
			c.v4 = n
		default:
			if a, err := netip.ParseAddr(words[4]); err == nil {
				c.own[a] = n
			}
		}
	})
	return c
}
