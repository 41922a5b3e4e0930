package icmp

import (
	"fmt"
	"net/netip"

	"vouch/checks"
	"vouch/checks/datagram"
)

// A tally is what has become of the requests of one round, which are numbered from 0.
type tally struct {
	maxLoss   int
	fates     []fate
	replies   int
	objected  int
	unsent    int                 // that never left, for want of room here
	objection *datagram.Objection // the first
	impostor  netip.Addr          // the first other host that answered in the target's place
}

type fate byte

const (
	waiting fate = iota
	answered
	objectedTo
)

func newTally(count, maxLoss int) *tally { return &tally{maxLoss: maxLoss, fates: make([]fate, count)} }

// reply notes a reply; a second one to the same request is none. It counts more than what was objected to the
// same request: whoever answers has got it.
func (t *tally) reply(seq int) {
	if seq >= len(t.fates) || t.fates[seq] == answered {
		return
	}
	if t.fates[seq] == objectedTo {
		t.objected--
	}
	t.fates[seq] = answered
	t.replies++
}

// object notes an objection to a request that has no reply yet.
func (t *tally) object(seq int, o *datagram.Objection) {
	if seq < len(t.fates) && t.fates[seq] == waiting {
		t.fates[seq] = objectedTo
		t.objected++
		if t.objection == nil {
			t.objection = o
		}
	}
}

// doomed says whether only replies to requests that were objected to could still change the outcome.
func (t *tally) doomed() bool { return t.objected > t.maxLoss }

// enough says whether the target is reached.
func (t *tally) enough() bool { return t.replies >= len(t.fates)-t.maxLoss }

// failure tells why the target is not reached; sent from where it was asked, and allowed how long it was waited at most.
func (t *tally) failure(sent, allowed string) *checks.Failure {
	if t.unsent > 0 && t.replies+t.unsent >= len(t.fates)-t.maxLoss { // they might have made it pass
		return &checks.Failure{Reason: checks.ReasonUnknown,
			Detail: "requests were dropped by a queue of this node, or at the other end of its link", Sent: sent}
	}
	counted := fmt.Sprintf("%d of %d replies", t.replies, len(t.fates))
	objected := t.objection != nil && t.objected > 0 // and not answered after all
	if objected && t.replies == 0 {                  // routers limit how often they object (RFC 1812, section 4.3.2.8)
		return &checks.Failure{Reason: checks.ReasonUnreachable, Detail: t.objection.Error(), Sent: sent, Aside: counted}
	}
	what := "no reply within "
	if t.replies > 0 {
		what = fmt.Sprintf("more than %d lost within ", t.maxLoss)
	}
	f := &checks.Failure{Reason: checks.ReasonTimeout, Detail: what + allowed, Sent: sent, Aside: counted}
	if objected {
		f.Reason = checks.ReasonUnreachable
		f.Detail += "; " + t.objection.Error()
	}
	if t.impostor.IsValid() {
		f.Detail += fmt.Sprintf("; %s answered in its place", t.impostor)
	}
	return f
}
