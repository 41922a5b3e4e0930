package health

import "testing"

func TestVerdictWithSoftChecks(t *testing.T) {
	for _, tc := range []struct{ hard, soft, want Verdict }{
		{Up, Up, Up}, {Up, Unknown, Up}, {Up, Down, Degraded},
		{Down, Up, Down}, {Down, Down, Down}, {Unknown, Down, Unknown}, {Unknown, Up, Unknown},
	} {
		if got := tc.hard.With(tc.soft); got != tc.want {
			t.Errorf("%s with %s: %s, want %s", tc.hard, tc.soft, got, tc.want)
		}
	}
	for _, v := range []Verdict{Unknown, Up, Down, Degraded} {
		b, _ := v.MarshalText()
		var back Verdict
		if err := back.UnmarshalText(b); err != nil || back != v {
			t.Errorf("%s comes back as %s, %v", b, back, err)
		}
	}
}
