package config

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"vouch/checks"
)

// local finds something, once it may; nil: at once.
func local(name string, until <-chan time.Time) func() []checks.Problem {
	return func() []checks.Problem {
		if until != nil {
			<-until
		}
		return []checks.Problem{{What: name}}
	}
}

// Those that hang keep nobody waiting for long, and are told; what the others find is told in order.
func TestLookerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := make(chan time.Time)
		l := looker{slots: make(chan struct{}, 4), patience: 2 * time.Second}
		ask := func(all ...func() []checks.Problem) string {
			var out []string
			for _, ps := range l.ask(all) {
				for _, p := range ps {
					out = append(out, p.What)
				}
			}
			return strings.Join(out, "|")
		}
		const hangs = "whether it fits this machine was not found out within 2s"
		begin := time.Now()
		if got := ask(local("a", nil), local("b", never), local("c", nil), local("d", nil)); got != "a|"+hangs+"|c|d" {
			t.Error(got)
		}
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("it took %s", took)
		}
		slow := make([]func() []checks.Problem, 9)
		for i := range slow {
			slow[i] = local(fmt.Sprint(i), time.After(time.Duration(i+1)*1500*time.Millisecond))
		}
		if got := ask(slow...); got != "0|1|2|3|4|5|6|7|8" {
			t.Errorf("slow, but not without end: %s", got)
		}
		if got := ask(local("a", never), local("b", never), local("c", never), local("d", nil), local("e", nil)); got != strings.Repeat(hangs+"|", 4)+hangs {
			t.Errorf("no slot left: %s", got)
		}
		close(never)
		synctest.Wait()
		if got := ask(local("a", nil), local("b", nil)); got != "a|b" || len(l.slots) != 0 {
			t.Errorf("after: %s, %d slots taken", got, len(l.slots))
		}
		if got := ask(); got != "" {
			t.Error(got)
		}
	})
}
