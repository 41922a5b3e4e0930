package icmp

import (
	"net/netip"
	"testing"

	"vouch/checks"
	"vouch/checks/datagram"
)

// What happens to requests, in order: "+" a reply, "-" an objection, to the request of that number.
func TestTally(t *testing.T) {
	from := netip.MustParseAddr("192.0.2.1")
	for _, c := range []struct {
		count, maxLoss int
		events         string
		enough, over   bool
		text           string
	}{
		{1, 0, "", false, false, "timeout: no reply within 1s (sent from 192.0.2.1, 0 of 1 replies)"},
		{1, 0, "+0", true, true, ""},
		{1, 0, "-0", false, true, "unreachable: this node says:  (sent from 192.0.2.1, 0 of 1 replies)"},
		{1, 0, "+0-0", true, true, ""},
		{1, 0, "-0+0", false, true, "unreachable: this node says:  (sent from 192.0.2.1, 0 of 1 replies)"},
		{2, 0, "+0+0", false, false, "timeout: more than 0 lost within 1s (sent from 192.0.2.1, 1 of 2 replies)"}, // a duplicate
		{2, 0, "+1+0", true, true, ""},
		{3, 2, "", false, false, "timeout: no reply within 1s (sent from 192.0.2.1, 0 of 3 replies)"},
		{3, 2, "-0-1+2", true, true, ""},
		{3, 2, "-0-1-2", false, true, "unreachable: this node says:  (sent from 192.0.2.1, 0 of 3 replies)"},
		{3, 1, "+0-1", false, false, "unreachable: more than 1 lost within 1s (sent from 192.0.2.1, 1 of 3 replies); this node says: "},
		{3, 1, "+9-9", false, false, "timeout: no reply within 1s (sent from 192.0.2.1, 0 of 3 replies)"}, // numbers never sent
	} {
		tally := newTally(c.count, c.maxLoss)
		for i := 0; i < len(c.events); i += 2 {
			if seq := int(c.events[i+1] - '0'); c.events[i] == '+' {
				tally.reply(seq)
			} else {
				tally.object(seq, new(datagram.Objection))
			}
		}
		if tally.enough() != c.enough || tally.decided() != c.over {
			t.Errorf("%d/%d %s: enough %v, decided %v", c.count, c.maxLoss, c.events, tally.enough(), tally.decided())
		}
		if f := tally.failure(from, "1s"); !c.enough && f.Error() != c.text {
			t.Errorf("%d/%d %s: %s\nwant %s", c.count, c.maxLoss, c.events, f, c.text)
		}
	}
	tally := newTally(1, 0)
	tally.impostor = netip.MustParseAddr("192.0.2.9")
	if f := tally.failure(from, "1s"); f.Reason != checks.ReasonTimeout ||
		f.Detail != "no reply within 1s (sent from 192.0.2.1, 0 of 1 replies); 192.0.2.9 answered in its place" {
		t.Error(f)
	}
}
