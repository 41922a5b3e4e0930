// Package decide turns verdicts and overrides into what each prefix ought to be, with its reasons
// in order of precedence. It is pure: time is an argument.
package decide

import (
	"fmt"
	"time"

	"vouch/agent/internal/health"
	"vouch/routers"
)

// A Drain is an operator's withdraw. Until is zero when only a resume ends it.
type Drain struct {
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until,omitzero"`
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
}

// A Side is how one kind of a service's checks stands.
type Side struct {
	State   health.State
	Failing []string // the checks that count and failed, each as "dns failed: timeout"
	Unknown []string // the checks that count and are unknown, each as "route unknown: no answer"
}

// Input is all that a decision rests on.
type Input struct {
	Hard        Side // the checks that can withdraw
	Soft        Side // the checks that can only degrade; zero: there are none
	Rules       health.Settings
	Removed     bool // the service is no longer configured; its prefixes go
	Stopping    bool // the agent stops, and the service withdraws then
	Unrisen     bool // there was no verdict yet since the boot: unknown means withdrawn
	Unconfirmed bool // no round has confirmed the verdict since vouch was started or the service resumed
	Drain       *Drain
}

// A Reason is one rule as it stands. Rules that are outranked are told as well, because they say
// what would be if the rules above them did not apply.
type Reason struct {
	Rule    string    `json:"rule"`    // one of the Rule constants
	Applies bool      `json:"applies"` // by itself, whatever outranks it
	Decides bool      `json:"decides"` // it is the first that applies
	Text    string    `json:"text"`
	Since   time.Time `json:"since,omitzero"`
	Until   time.Time `json:"until,omitzero"`
}

// The rules, in order of precedence.
const (
	RuleStop     = "stop"     // the agent stops, and on_stop is "withdraw"
	RuleRemoved  = "removed"  // the service left the configuration
	RuleDrain    = "drain"    // an operator's withdraw
	RuleChecks   = "checks"   // hard failure: the verdict is down
	RuleStart    = "start"    // no verdict yet
	RuleDegraded = "degraded" // the checks that can only degrade have failed
	RuleServing  = "serving"  // the verdict is up
)

// A Decision is what a service's prefixes ought to be, and why. Exactly one of its reasons decides.
type Decision struct {
	Want    routers.Want `json:"want"`
	Reasons []Reason     `json:"reasons"` // in order of precedence, all of them
}

// rules are asked in this order. Each gives its reason and what follows if it decides.
var rules = []func(in Input, now time.Time) (Reason, routers.Want){removed, drained, failed, started, degraded, serving}

// Decide says what the service's prefixes ought to be at now, and why. It is pure.
func Decide(in Input, now time.Time) Decision {
	if in.Stopping { // which outranks all, and is over before anybody could ask for the others
		return Decision{Want: routers.Withdrawn, Reasons: []Reason{
			{Rule: RuleStop, Applies: true, Decides: true, Text: `vouch stops, and on_stop is "withdraw"`}}}
	}
	d := Decision{Reasons: make([]Reason, 0, len(rules))}
	decided := false
	for _, rule := range rules {
		r, want := rule(in, now)
		if r.Applies && !decided {
			r.Decides, decided, d.Want = true, true, want
		}
		d.Reasons = append(d.Reasons, r)
	}
	return d
}

func removed(in Input, _ time.Time) (Reason, routers.Want) {
	r := Reason{Rule: RuleRemoved, Applies: in.Removed, Text: "configured"}
	if in.Removed {
		r.Text = "no longer configured"
	}
	return r, routers.Withdrawn
}

// drained does not apply once the drain's end has come, even when nobody has cleared it yet.
func drained(in Input, now time.Time) (Reason, routers.Want) {
	r := Reason{Rule: RuleDrain, Text: "not drained"}
	d := in.Drain
	if d == nil {
		return r, routers.Withdrawn
	}
	r.Since, r.Until = d.Since, d.Until
	switch {
	case d.Until.IsZero():
		r.Applies, r.Text = true, "drained by "+d.By+" until resumed"
	case now.Before(d.Until):
		r.Applies, r.Text = true, "drained by "+d.By+" until "+until(d.Until, now)
	default:
		r.Text = "the drain by " + d.By + " ended at " + clock(d.Until, now)
	}
	if r.Applies && d.Reason != "" {
		r.Text += ": " + d.Reason
	}
	return r, routers.Withdrawn
}

func failed(in Input, now time.Time) (Reason, routers.Want) {
	return fallen(RuleChecks, "down", "no check withdraws it", in.Hard, in.Rules, now), routers.Withdrawn
}

// started withdraws after a boot, because what the daemon's saved configuration announces has not
// been vouched for; after a restart of the agent alone it leaves things as they are.
func started(in Input, now time.Time) (Reason, routers.Want) {
	r := Reason{Rule: RuleStart, Applies: in.Hard.State.Verdict == health.Unknown, Text: "a verdict has been reached"}
	switch {
	case r.Applies && in.Unrisen:
		r.Text = "nothing is announced after a boot before rise: " + standing(in.Hard, in.Rules, "down", now)
		return r, routers.Withdrawn
	case r.Applies:
		r.Text = "what is stays until there is a verdict: " + standing(in.Hard, in.Rules, "down", now)
	}
	return r, routers.Keep
}

func degraded(in Input, now time.Time) (Reason, routers.Want) {
	r := fallen(RuleDegraded, "degraded", "no check degrades it", in.Soft, in.Rules, now)
	if r.Applies && in.Hard.State.Verdict == health.Up && in.Unconfirmed {
		r.Text = unconfirmed(in.Rules) + r.Text
	}
	return r, routers.Degraded
}

// fallen applies when one side's checks have failed, which makes the service what.
func fallen(rule, what, fine string, side Side, s health.Settings, now time.Time) Reason {
	r := Reason{Rule: rule, Applies: side.State.Verdict == health.Down, Text: fine}
	switch {
	case r.Applies:
		r.Text, r.Since, r.Until = standing(side, s, what, now), side.State.Since, heldUntil(side.State, now)
	case side.State.Bad > 0 || len(side.Failing)+len(side.Unknown) > 0:
		r.Text = "not " + what + ": " + standing(side, s, what, now)
	}
	return r
}

func serving(in Input, now time.Time) (Reason, routers.Want) {
	r := Reason{Rule: RuleServing, Applies: in.Hard.State.Verdict == health.Up, Text: "not up"}
	if r.Applies {
		r.Text, r.Since = standing(in.Hard, in.Rules, "down", now), in.Hard.State.Since
	}
	if r.Applies && in.Unconfirmed {
		r.Text = unconfirmed(in.Rules) + r.Text
	}
	return r, routers.Announced
}

func unconfirmed(s health.Settings) string {
	return fmt.Sprintf("up when vouch was started or the service resumed; nothing is announced anew until that is confirmed by %s; ", inARow(s.Rise, "good"))
}
