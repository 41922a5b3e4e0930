package vyos

import "testing"

func TestTurn(t *testing.T) {
	type look struct {
		pid           int
		ended, others bool
	}
	own := func(pid int) bool { return pid < 10 }
	for name, looks := range map[string][]look{
		"another's":             {{}, {17, false, false}, {17, false, false}, {0, true, true}, {}},
		"ours":                  {{}, {7, false, false}, {7, false, false}, {0, true, false}, {}},
		"one behind another":    {{17, false, false}, {18, true, true}, {0, true, true}},
		"ours behind another's": {{17, false, false}, {8, true, true}, {0, true, false}},
		"another's behind ours": {{7, false, false}, {18, true, false}, {0, true, true}},
	} {
		var seen turn
		for i, l := range looks {
			if ended, others := seen.next(l.pid, own); ended != l.ended || others != l.others {
				t.Errorf("%s: look %d: %t, %t", name, i, ended, others)
			}
		}
	}
}
