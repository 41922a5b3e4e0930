package checktest

import (
	"os"
	"runtime"
	"testing"
)

// What ends a test within a space, as t.Fatal does by Goexit, ends it outside too, and the space still serves.
func TestSpaceOutlivesAFatal(t *testing.T) {
	s := NewSpace(t)
	inside := func() (name string) {
		var err error
		s.Do(func() { name, err = os.Readlink("/proc/thread-self/ns/net") })
		if err != nil {
			t.Error(err)
		}
		return name
	}
	before := inside()
	for range 3 {
		went, ended := false, make(chan struct{})
		go func() {
			defer close(ended)
			s.Do(runtime.Goexit)
			went = true
		}()
		<-ended
		if went {
			t.Error("the test went on")
		}
	}
	if now := inside(); now != before {
		t.Errorf("it is %s, and was %s", now, before)
	}
}
