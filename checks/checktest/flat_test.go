package checktest

import (
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// mute is a test that may fail.
type mute struct {
	testing.TB
	failed bool
}

func (m *mute) Helper()               {}
func (m *mute) Errorf(string, ...any) { m.failed = true }

// What is left is seen, and what goes a little later is not taken for it.
func TestFlat(t *testing.T) {
	for what, c := range map[string]struct {
		after time.Duration // until the file is closed
		want  bool
	}{"goes at once": {0, false}, "goes late": {29 * time.Second, false}, "stays too long": {time.Minute, true}} {
		synctest.Test(t, func(t *testing.T) {
			m := &mute{TB: t}
			Flat(m, func() {
				f, err := os.Open("/dev/null")
				if err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(c.after, func() { f.Close() })
			})
			if m.failed != c.want {
				t.Errorf("%s: told %t", what, m.failed)
			}
			time.Sleep(time.Minute) // of the bubble, for the file to be closed
		})
	}
}
