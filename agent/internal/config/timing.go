package config

import "time"

// Timing is how long a service's decisions take at worst, as it follows from the configuration. To
// it comes what the routing daemon and the network need to carry out a decision. Where a kind of
// check is woken by events, the decision comes sooner.
type Timing struct {
	// Refused: from a death that answers at once with an error, such as a refused connection, to the
	// decision to withdraw.
	Refused time.Duration
	// Silent: from a death of which nothing is heard until the timeout to the decision to withdraw.
	Silent time.Duration
	// Return: from the moment that all answers again to the decision to announce, beside a hold-down.
	Return time.Duration
}

// Timing calculates the worst times of the service, those of its slowest check that counts:
//
//   - The death comes right after a good answer, so that the first bad round starts one interval
//     later. The fall-1 rounds after it follow at fast.
//   - A silent round takes its timeout, and the next one does not start before it has ended.
//   - The return comes right after a round was sent in vain, so that the first good one starts one
//     interval later, or when the timeout of that round has passed. The rise-1 rounds after it
//     follow at fast.
func (s Service) Timing() Timing {
	var t Timing
	h := s.Health
	falls, rises := time.Duration(h.Fall-1), time.Duration(h.Rise-1)
	for _, c := range s.Checks {
		if !c.Counts() {
			continue
		}
		t.Refused = max(t.Refused, c.Interval+falls*h.Fast)
		t.Silent = max(t.Silent, c.Interval+falls*max(h.Fast, c.Timeout)+c.Timeout)
		t.Return = max(t.Return, max(c.Interval, c.Timeout)+rises*h.Fast)
	}
	return t
}
