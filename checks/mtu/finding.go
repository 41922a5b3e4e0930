package mtu

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"vouch/checks"
	"vouch/checks/datagram"
)

// A finding is what is known of the path to one destination.
type finding struct {
	to    netip.AddrPort
	from  netip.Addr // invalid: there is no socket
	sent  string     // the same for people
	bytes int        // of the large packet
	small int        // of the small one; as large: there is none
	quic  bool

	large, little bool                // answered
	own           *datagram.Objection // this node's interface takes no such packet
	narrow        *datagram.Objection // a router's word that it does not fit
	refused       *datagram.Objection // any other objection
	link          string              // the interface that own is of, where it is known
	left          [2]sends            // the small packet, and the large one
	err           error               // something else went wrong
}

// The two packets, by their place in left.
const (
	small = iota
	large
)

// A sends counts how often a packet was sent, and how often there was no room for it in this node's queue.
type sends struct{ all, lost int }

func (s sends) none() bool { return s.all > 0 && s.all == s.lost }

// decided says whether nothing that may come could change the result.
func (f *finding) decided() bool { return f.large || f.own != nil || f.err != nil }

// doomed says whether only the large packet's answer could still change the result.
func (f *finding) doomed() bool { return f.narrow != nil || f.refused != nil }

// object notes an objection to one of the packets.
func (f *finding) object(o *datagram.Objection) {
	switch {
	case o.TooBig() && !o.By.IsValid():
		f.own = o
	case o.TooBig() && o.MTU >= f.bytes: // it would fit, so it is not about this packet, or a lie
	case o.TooBig():
		f.narrow = o
	case o.Errno == unix.EREMOTEIO || o.Errno == unix.EPROTO:
		// Source quench (RFC 6633), a redirect, or a complaint of the header, as the kernel gives them: no reason to give up.
	default:
		f.refused = o
	}
}

// result judges: nil is ok. Allowed is how long it was waited at most.
func (f *finding) result(allowed string) *checks.Failure {
	var reason checks.Reason
	var text string
	switch {
	case f.large:
		return nil
	case f.err != nil:
		reason = checks.Result{Start: time.Now(), Err: f.err}.Reason()
		text = strings.TrimPrefix(f.err.Error(), string(reason)+": ")
	case f.own != nil:
		reason, text = checks.ReasonUnusable, "this node's own interface "+f.link+fits(f.own)+f.not()
	case f.narrow != nil:
		reason, text = checks.ReasonUnusable, "the path"+fits(f.narrow)+f.not()+", says "+f.narrow.By.String()
	case f.refused != nil:
		reason, text = checks.ReasonUnreachable, f.refused.Error()
		if strings.Contains(text, "port unreachable") {
			reason = checks.ReasonRefused
		}
	case f.left[large].none():
		reason, text = f.stuck()
	case f.little:
		reason, text = checks.ReasonUnusable, fmt.Sprintf("the path carries %d bytes%s, and no router says so: a packet of that size is lost without a word (waited %s)",
			f.small, f.not(), allowed)
	default:
		reason, text = checks.ReasonTimeout, f.silent(allowed)
	}
	if f.sent != "" {
		text += " (" + f.sent + ")"
	}
	return &checks.Failure{Reason: reason, Detail: text}
}

// stuck tells of a large packet that never left. Where the small one did, it is its size: that of a queue, such as a
// shaper's, or of the other end of a link, and the kernel tells of both by the same word. Else this node has no room.
func (f *finding) stuck() (checks.Reason, string) {
	if small := f.left[small]; small.all > small.lost {
		return checks.ReasonUnusable, fmt.Sprintf("a packet of %d bytes is dropped by this node's own queue, or at the narrower other end of its link; one of %d bytes is not",
			f.bytes, f.small)
	}
	return checks.ReasonUnknown, "no packet could be sent: this node's own queue drops them"
}

func (f *finding) not() string { return fmt.Sprintf(", not %d", f.bytes) }

func fits(o *datagram.Objection) string {
	if o.MTU == 0 {
		return " carries less"
	}
	return fmt.Sprintf(" carries %d bytes", o.MTU)
}

func (f *finding) silent(allowed string) string {
	if f.small == f.bytes {
		return fmt.Sprintf("no answer to a packet of %d bytes within %s", f.bytes, allowed)
	}
	return fmt.Sprintf("no answer within %s, neither to a packet of %d bytes nor to one of %d: whatever the size, it is not reached", allowed, f.bytes, f.small)
}

// sum makes one result of all findings.
func sum(all bool, fs []*finding, allowed string) error {
	var worst *checks.Failure
	var texts []string
	var ok int
	for _, f := range fs {
		failed := f.result(allowed)
		if failed == nil {
			ok++
			continue
		}
		text := failed.Detail
		if len(fs) > 1 {
			text = f.name() + ": " + text
		}
		texts = append(texts, text)
		if worst == nil || weight(failed.Reason, all) > weight(worst.Reason, all) {
			worst = failed
		}
	}
	if worst == nil || ok > 0 && !all {
		return nil
	}
	return &checks.Failure{Reason: worst.Reason, Detail: strings.Join(texts, "; ")}
}

// weight says which of several reasons tells most. What could not be found out decides where one success would
// have been enough, for it might have been one.
func weight(r checks.Reason, all bool) int {
	switch {
	case r == checks.ReasonUnknown && all:
		return 0
	case r == checks.ReasonUnknown:
		return 4
	case r == checks.ReasonUnusable:
		return 3
	case r == checks.ReasonTimeout:
		return 1
	}
	return 2
}

func (f *finding) name() string {
	if f.quic {
		return f.to.String()
	}
	return f.to.Addr().String()
}
