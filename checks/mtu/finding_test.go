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
	for mtu, doomed := range map[int]bool{0: true, 1279: true, 1280: false, 65535: false} {
		f := at(finding{})
		f.object(&datagram.Objection{By: someone, Errno: unix.EMSGSIZE, MTU: mtu})
		if f.doomed() != doomed || f.decided() {
			t.Errorf("%d would fit: doomed %v, decided %v", mtu, f.doomed(), f.decided())
		}
	}
	for errno, doomed := range map[unix.Errno]bool{unix.EHOSTUNREACH: true, unix.ECONNREFUSED: true, unix.EREMOTEIO: false, unix.EPROTO: false} {
		f := at(finding{})
		f.object(&datagram.Objection{By: someone, Errno: errno})
		if f.doomed() != doomed || f.decided() {
			t.Errorf("%v: doomed %v, decided %v", errno, f.doomed(), f.decided())
		}
	}
	f := at(finding{})
	f.object(&datagram.Objection{By: someone, Errno: unix.EMSGSIZE})
	if got := f.result("1s"); got.Detail != "the path carries less, not 1280, says 192.0.2.254" {
		t.Error(got)
	}
}

// What never left tells of this node, and of sizes where only the large packets stayed.
func TestStuck(t *testing.T) {
	for name, c := range map[string]struct {
		f      finding
		reason checks.Reason
		text   string
	}{
		"large alone":       {finding{left: [2]sends{{3, 0}, {3, 3}}}, checks.ReasonUnusable, "a packet of 1280 bytes is dropped by this node's own queue, or at the narrower other end of its link; one of 100 bytes is not"},
		"small answered":    {finding{left: [2]sends{{1, 0}, {3, 3}}, little: true}, checks.ReasonUnusable, "a packet of 1280 bytes is dropped by this node's own queue, or at the narrower other end of its link; one of 100 bytes is not"},
		"both":              {finding{left: [2]sends{{3, 3}, {3, 3}}}, checks.ReasonUnknown, "no packet could be sent: this node's own queue drops them"},
		"no small one":      {finding{left: [2]sends{{}, {3, 3}}}, checks.ReasonUnknown, "no packet could be sent: this node's own queue drops them"},
		"one of three left": {finding{left: [2]sends{{3, 0}, {3, 2}}, little: true}, checks.ReasonUnusable, "the path carries 100 bytes, not 1280, and no router says so: a packet of that size is lost without a word (waited 1s)"},
		"the last answered": {finding{left: [2]sends{{3, 0}, {3, 2}}, large: true}, "", ""},
	} {
		got := at(c.f).result("1s")
		if got == nil && c.reason == "" {
			continue
		}
		if got == nil || got.Reason != c.reason || got.Detail != c.text {
			t.Errorf("%s: %v", name, got)
		}
	}
}
