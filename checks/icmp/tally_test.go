package icmp

import (
	"net/netip"
	"testing"

	"vouch/checks/datagram"
)

// What happens to requests, in order: "+" a reply, "-" an objection, to the request of that number; "x" that
// one found no room to leave.
func TestTally(t *testing.T) {
	const sent = "sent from 192.0.2.1"
	for _, c := range []struct {
		count, maxLoss int
		events         string
		enough, doomed bool
		text           string
	}{
		{1, 0, "", false, false, "timeout: no reply within 1s (sent from 192.0.2.1, 0 of 1 replies)"},
		{1, 0, "+0", true, false, ""},
		{1, 0, "-0", false, true, "unreachable: this node says:  (sent from 192.0.2.1, 0 of 1 replies)"},
		{1, 0, "+0-0", true, false, ""},
		{1, 0, "-0+0", true, false, ""}, // who answers has got it
		{1, 0, "-0+0-0", true, false, ""},
		{2, 0, "-0+0", false, false, "timeout: more than 0 lost within 1s (sent from 192.0.2.1, 1 of 2 replies)"},
		{2, 0, "+0+0", false, false, "timeout: more than 0 lost within 1s (sent from 192.0.2.1, 1 of 2 replies)"}, // a duplicate
		{2, 0, "+1+0", true, false, ""},
		{3, 2, "", false, false, "timeout: no reply within 1s (sent from 192.0.2.1, 0 of 3 replies)"},
		{3, 2, "-0-1+2", true, false, ""},
		{3, 2, "-0-1-2", false, true, "unreachable: this node says:  (sent from 192.0.2.1, 0 of 3 replies)"},
		{3, 1, "+0-1", false, false, "unreachable: more than 1 lost within 1s; this node says:  (sent from 192.0.2.1, 1 of 3 replies)"},
		{3, 1, "+9-9", false, false, "timeout: no reply within 1s (sent from 192.0.2.1, 0 of 3 replies)"}, // numbers never sent
		{1, 0, "x0", false, false, "unknown: requests were dropped by a queue of this node, or at the other end of its link (sent from 192.0.2.1)"},
		{3, 1, "x0+1", false, false, "unknown: requests were dropped by a queue of this node, or at the other end of its link (sent from 192.0.2.1)"},
		{3, 1, "x0+1+2", true, false, ""},
		{4, 0, "x0-1", false, true, "unreachable: this node says:  (sent from 192.0.2.1, 0 of 4 replies)"},
	} {
		tally := newTally(c.count, c.maxLoss)
		for i := 0; i < len(c.events); i += 2 {
			switch seq := int(c.events[i+1] - '0'); c.events[i] {
			case '+':
				tally.reply(seq)
			case '-':
				tally.object(seq, new(datagram.Objection))
			case 'x':
				tally.unsent++
			}
		}
		if tally.enough() != c.enough || tally.doomed() != c.doomed {
			t.Errorf("%d/%d %s: enough %v, doomed %v", c.count, c.maxLoss, c.events, tally.enough(), tally.doomed())
		}
		if f := tally.failure(sent, "1s"); !c.enough && f.Error() != c.text {
			t.Errorf("%d/%d %s: %s\nwant %s", c.count, c.maxLoss, c.events, f, c.text)
		}
	}
	tally := newTally(1, 0)
	tally.impostor = netip.MustParseAddr("192.0.2.9")
	if f := tally.failure(sent, "1s"); f.Error() != "timeout: no reply within 1s; 192.0.2.9 answered in its place (sent from 192.0.2.1, 0 of 1 replies)" {
		t.Error(f)
	}
}
