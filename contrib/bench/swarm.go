package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"vouch/routers/lab"
)

// A swarm is what a script came to that forks dig, bash and curl for each service at each beat, all of
// them side by side.
type swarm struct {
	Services int           `json:"services"`
	Due      int           `json:"due"` // programs that ought to have run
	Ran      int           `json:"ran"` // that did, and ended somehow
	OK       int           `json:"ok"`  // that ended well within the beat
	CPU      time.Duration `json:"cpu"` // of the programs and of the script
	resident float64       // MB, of all together, at most
}

// each gives the processor time of all for one that ended well, in milliseconds.
func (s swarm) each() (of sample) {
	if s.OK > 0 {
		of.ms(s.CPU / time.Duration(s.OK))
	}
	return of
}

func (s swarm) onTime() float64 { return percent(s.OK, s.Due) }

// swarm has a worker be the script, and looks on at its memory.
func (b *bench) swarm(ctx context.Context, g *ground, services int) (s swarm, err error) {
	p, err := g.host.Start("swarm"+strconv.Itoa(services), b.self, "-worker", "swarm", "-runs", strconv.Itoa(services))
	if err != nil {
		return s, err
	}
	for {
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-p.Done():
			if err := p.Err(); err != nil {
				return s, fmt.Errorf("swarm: %w: %s", err, last(p.Log(), 2000))
			}
			return s, json.Unmarshal([]byte(p.Log()), &s)
		case <-time.After(500 * time.Millisecond):
			s.resident = max(s.resident, family(p.PID()))
		}
	}
}

// family gives the memory of a process and its children, in MB; what they share with each other counts
// once.
func family(pid int) (mb float64) {
	pids := []string{strconv.Itoa(pid)}
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, t := range tasks {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, t.Name()))
		pids = append(pids, strings.Fields(string(text))...)
	}
	for _, p := range pids {
		text, err := os.ReadFile("/proc/" + p + "/smaps_rollup")
		if err == nil { // one that has ended has none
			mb += shareOf(string(text))
		}
	}
	return mb
}

// shareOf reads the Pss of the text of /proc/PID/smaps_rollup, in MB.
func shareOf(text string) float64 {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "Pss:" {
			kb, _ := strconv.ParseFloat(f[1], 64)
			return kb * 1024 / 1e6
		}
	}
	return 0
}

// scriptedTrio are the programs of one service.
func scriptedTrio() [][]string {
	return [][]string{
		{"dig", "+tries=1", "+time=1", "@127.0.0.1", lab.HealthName, "A"},
		{"bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/80"},
		{"curl", "-sf", "-m", "1", "-o", "/dev/null", "http://127.0.0.1/"},
	}
}

// swarmFor is the worker: it is the script, for the time of a window, and prints JSON.
func swarmFor(ctx context.Context, out io.Writer, services int) error {
	ctx, cancel := context.WithTimeout(ctx, window)
	defer cancel()
	var ok atomic.Int64
	before := cpu(syscall.RUSAGE_CHILDREN) + cpu(syscall.RUSAGE_SELF)
	var wg sync.WaitGroup
	for i := range services {
		wg.Go(func() {
			// Services begin at different times, as vouch has it.
			if pause(ctx, beat*time.Duration(i)/time.Duration(services)) != nil {
				return
			}
			tick := time.NewTicker(beat) // a beat that is missed is not made up for
			defer tick.Stop()
			for {
				once(ctx, &ok)
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
			}
		})
	}
	wg.Wait()
	s := swarm{Services: services, Due: services * trio * int(window/beat), OK: int(ok.Load())}
	s.CPU = cpu(syscall.RUSAGE_CHILDREN) + cpu(syscall.RUSAGE_SELF) - before
	return json.NewEncoder(out).Encode(s)
}

// once runs the programs of one service side by side, each for a beat at most, and counts those that end
// well.
func once(ctx context.Context, ok *atomic.Int64) {
	ctx, cancel := context.WithTimeout(ctx, beat)
	defer cancel()
	var wg sync.WaitGroup
	for _, args := range scriptedTrio() {
		wg.Go(func() {
			if exec.CommandContext(ctx, args[0], args[1:]...).Run() == nil {
				ok.Add(1)
			}
		})
	}
	wg.Wait()
}
