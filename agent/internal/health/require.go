package health

import (
	"fmt"
	"strconv"
	"strings"

	"vouch/checks"
)

// A Require says how many of a set must be ok. The zero Require means all.
// It is written as "all", "any", a number such as 2, or a share such as "50%" (rounded up).
type Require struct {
	Count   int // at least this many; 0: see Percent
	Percent int // at least this share, 1 to 100; 0 with Count 0: all
}

// ParseRequire reads "all", "any", a number from 1 such as "2", or a share from "1%" to "100%".
func ParseRequire(s string) (Require, error) {
	switch s {
	case "all":
		return Require{}, nil
	case "any":
		return Require{Count: 1}, nil
	}
	digits, share := strings.CutSuffix(s, "%")
	n, err := strconv.Atoi(digits)
	switch {
	case err != nil || strconv.Itoa(n) != digits:
		return Require{}, fmt.Errorf(`require %q is not understood; write "all", "any", a number such as 2, or a share such as "50%%"`, s)
	case share && (n < 1 || n > 100):
		return Require{}, fmt.Errorf(`require %q must be a share from "1%%" to "100%%"`, s)
	case n < 1:
		return Require{}, fmt.Errorf(`require %q must be at least 1; with none required nothing would be vouched for`, s)
	case share:
		return Require{Percent: n}, nil
	}
	return Require{Count: n}, nil
}

// String gives what ParseRequire reads.
func (r Require) String() string {
	switch {
	case r.Count == 1:
		return "any"
	case r.Count > 0:
		return strconv.Itoa(r.Count)
	case r.Percent > 0:
		return strconv.Itoa(r.Percent) + "%"
	}
	return "all"
}

// MarshalText gives what ParseRequire reads.
func (r Require) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText is ParseRequire. The TOML decoder hands it integers as well.
func (r *Require) UnmarshalText(b []byte) error {
	parsed, err := ParseRequire(string(b))
	if err == nil {
		*r = parsed
	}
	return err
}

// need gives how many of total must be ok: at least 1, and at most all of them.
func (r Require) need(total int) int {
	n := total
	switch {
	case r.Count > 0:
		n = r.Count
	case r.Percent > 0:
		n = (total*r.Percent + 99) / 100
	}
	return max(1, min(n, total))
}

// Of says what a set of total comes to in which ok are ok and failed have failed, the others being
// unknown: good when enough are ok, bad when enough can no longer be, else undecided. An empty set
// is undecided: it vouches for nothing.
func (r Require) Of(ok, failed, total int) Outcome {
	switch need := r.need(total); {
	case total <= 0:
		return Undecided
	case ok >= need:
		return Good
	case total-failed < need:
		return Bad
	}
	return Undecided
}

// A Member is one check's part in a round.
type Member struct {
	Group  string // the group it belongs to; empty: the service itself
	Status checks.Status
	Counts bool // false: its failure only warns, and it is left out
}

// A tally counts the members of one set by status.
type tally struct{ ok, failed, total int }

func (t *tally) add(s checks.Status) {
	t.total++
	switch s {
	case checks.OK:
		t.ok++
	case checks.Failed:
		t.failed++
	}
}

// statusOf says as what a group of this outcome enters the service's set.
var statusOf = [...]checks.Status{Undecided: checks.Unknown, Good: checks.OK, Bad: checks.Failed}

// Evaluate says what a round comes to. Each group is one member of the service's own set, beside the
// members without a group; a group that groups does not name needs all of its members, and one with
// no member that counts is left out.
func Evaluate(service Require, groups map[string]Require, members []Member) Outcome {
	var top tally
	byGroup := map[string]*tally{}
	for _, m := range members {
		switch {
		case !m.Counts:
		case m.Group == "":
			top.add(m.Status)
		default:
			if byGroup[m.Group] == nil {
				byGroup[m.Group] = &tally{}
			}
			byGroup[m.Group].add(m.Status)
		}
	}
	for name, t := range byGroup {
		top.add(statusOf[groups[name].Of(t.ok, t.failed, t.total)])
	}
	return service.Of(top.ok, top.failed, top.total)
}
