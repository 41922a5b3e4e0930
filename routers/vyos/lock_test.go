package vyos

import "testing"

func TestTurn(t *testing.T) {
	type look struct {
		pid           int
		own           bool
		ended, others bool
	}
	for name, looks := range map[string][]look{
		"another's":              {{}, {7, false, false, false}, {7, false, false, false}, {0, false, true, true}, {}},
		"ours":                   {{}, {7, true, false, false}, {0, true, true, false}},
		"ours, ended when seen":  {{}, {7, true, false, false}, {7, false, false, false}, {0, false, true, false}},
		"one behind another":     {{7, false, false, false}, {8, false, true, true}, {0, false, true, true}},
		"ours behind another's":  {{7, false, false, false}, {8, true, true, true}, {0, true, true, false}},
		"another's behind ours":  {{7, true, false, false}, {8, false, true, false}, {0, false, true, true}},
		"ours waits for another": {{7, false, false, false}, {7, false, false, false}, {0, true, true, true}},
	} {
		var seen turn
		for i, l := range looks {
			if ended, others := seen.next(l.pid, l.own); ended != l.ended || others != l.others {
				t.Errorf("%s: look %d: %t, %t", name, i, ended, others)
			}
		}
	}
}
