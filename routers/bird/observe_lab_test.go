package bird

import (
	"testing"
	"time"
)

func TestObserveScene(t *testing.T) {
	eachScene(t, func(t *testing.T, s *scene) {
		d := s.daemons()
		defer d.close()
		began := time.Now()
		if err := sceneStands(s.sights(t, d)); err != nil {
			t.Error(err)
		}
		t.Logf("read in %v", time.Since(began))
	})
}
