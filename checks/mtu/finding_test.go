package mtu

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"vouch/checks"
	"vouch/checks/datagram"
)

var someone = netip.MustParseAddr("192.0.2.254")

// at is a finding about one of several destinations.
func at(f finding) *finding {
	f.to, f.bytes, f.small = netip.MustParseAddrPort("192.0.2.1:0"), 1280, 100
	return &f
}

// What one destination tells weighs differently among several.
func TestSum(t *testing.T) {
	var (
		ok      = at(finding{large: true, little: true})
		silent  = at(finding{})
		lost    = at(finding{little: true})
		unknown = at(finding{err: &checks.Failure{Reason: checks.ReasonUnknown, Detail: "too many open files"}})
		refused = at(finding{refused: &datagram.Objection{By: someone, Errno: unix.EHOSTUNREACH}})
	)
	for name, c := range map[string]struct {
		of       []*finding
		any, all checks.Reason
	}{
		"ok":                  {[]*finding{ok}, "", ""},
		"ok, silent":          {[]*finding{ok, silent}, "", checks.ReasonTimeout},
		"lost, ok":            {[]*finding{lost, ok}, "", checks.ReasonUnusable},
		"silent, lost":        {[]*finding{silent, lost}, checks.ReasonUnusable, checks.ReasonUnusable},
		"silent, refused":     {[]*finding{silent, refused}, checks.ReasonUnreachable, checks.ReasonUnreachable},
		"refused, lost":       {[]*finding{refused, lost}, checks.ReasonUnusable, checks.ReasonUnusable},
		"unknown":             {[]*finding{unknown}, checks.ReasonUnknown, checks.ReasonUnknown},
		"unknown, lost":       {[]*finding{unknown, lost}, checks.ReasonUnknown, checks.ReasonUnusable},
		"lost, unknown":       {[]*finding{lost, unknown}, checks.ReasonUnknown, checks.ReasonUnusable},
		"unknown, ok":         {[]*finding{unknown, ok}, "", checks.ReasonUnknown},
		"silent, and nothing": {[]*finding{silent, silent}, checks.ReasonTimeout, checks.ReasonTimeout},
	} {
		for _, all := range []bool{false, true} {
			want := c.any
			if all {
				want = c.all
			}
			got := checks.Reason("")
			if err := sum(all, c.of, "1s"); err != nil {
				got = err.(*checks.Failure).Reason
			}
			if got != want {
				t.Errorf("%s, all %v: %q, want %q", name, all, got, want)
			}
		}
	}
	if err := sum(true, []*finding{unknown, ok}, "1s"); err.Error() != "unknown: 192.0.2.1: too many open files" {
		t.Error(err)
	}
}

// A word about a size that would fit is about another packet, or a lie.
func TestObject(t *testing.T) {
	for mtu, decided := range map[int]bool{0: true, 1279: true, 1280: false, 65535: false} {
		f := at(finding{})
		f.object(&datagram.Objection{By: someone, Errno: unix.EMSGSIZE, MTU: mtu})
		if f.decided() != decided {
			t.Errorf("%d would fit: decided %v", mtu, f.decided())
		}
	}
	f := at(finding{})
	f.object(&datagram.Objection{By: someone, Errno: unix.EMSGSIZE})
	if got := f.result("1s"); got.Detail != "the path carries less, not 1280, says 192.0.2.254" {
		t.Error(got)
	}
}
