package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"vouch/routers/lab"
)

// configuration is the vouch.toml of a node: the name, three paths, the service's address.
const configuration = `[agent]
node = %q
state_file = %q

[control]
socket = %q

[router]
daemon = "frr"
method = "address"
socket_dir = %q
unpaced = true # as the core has "timers lsa min-arrival 0"

[service.resolver]
prefixes = [%q]
interval = "1s"
fast = "200ms"
rise = 2
fall = 3

[service.resolver.check.dns]
type = "dns"
server = "127.0.0.1:53"
name = %q
qtype = "A"

[service.resolver.check.route]
type = "route"
`

// A sidecar is vouch on one node.
type sidecar struct {
	node    *lab.AnycastNode
	program string
	config  string // its file
	socket  string
	proc    *lab.Proc
}

// newSidecar writes the configuration; start starts it.
func newSidecar(nd *lab.AnycastNode, program string) (*sidecar, error) {
	dir := filepath.Join(nd.Dir(), "vouch")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	s := &sidecar{node: nd, program: program, config: filepath.Join(dir, "vouch.toml"), socket: filepath.Join(dir, "control.sock")}
	text := fmt.Sprintf(configuration, nd.Name(), filepath.Join(dir, "state.json"), s.socket, nd.FRR.SocketDir(), lab.Service, lab.HealthName)
	return s, os.WriteFile(s.config, []byte(text), 0o644)
}

func (s *sidecar) start() (err error) {
	s.proc, err = s.node.Start("vouch", s.program, "run", "--config", s.config)
	return err
}

// A view is the part of `vouch status --json` that the demo reads.
type view struct {
	Ready    bool `json:"ready"`
	Services []struct {
		Name    string `json:"name"`
		Verdict string `json:"verdict"`
		Checks  []struct {
			Name   string `json:"name"`
			Status string `json:"status"`
			Reason string `json:"reason"`
			Detail string `json:"detail"`
		} `json:"checks"`
		Prefixes []struct {
			Prefix string `json:"prefix"`
			Want   string `json:"want"`
			Stage  string `json:"stage"`
		} `json:"prefixes"`
	} `json:"services"`
}

// String says the view in a line.
func (v view) String() string {
	var parts []string
	for _, s := range v.Services {
		parts = append(parts, s.Name+" is "+s.Verdict)
		for _, c := range s.Checks {
			if c.Status != "ok" {
				parts = append(parts, strings.TrimSpace(fmt.Sprintf("check %s %s: %s %s", c.Name, c.Status, c.Reason, c.Detail)))
			}
		}
		for _, p := range s.Prefixes {
			parts = append(parts, fmt.Sprintf("%s wanted %s, read %s", p.Prefix, p.Want, p.Stage))
		}
	}
	return strings.Join(parts, "; ")
}

// status asks the running vouch. Its exit status is 1 while a service is down, which is an answer.
func (s *sidecar) status(ctx context.Context) (v view, err error) {
	out, err := s.node.Run(ctx, s.program, "status", "--json", "--socket", s.socket)
	if json.Unmarshal([]byte(out), &v) == nil {
		return v, nil
	}
	return v, err
}

// until waits for a status and gives it.
func (s *sidecar) until(ctx context.Context, what string, ok func(view) bool) (v view, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err = lab.Wait(ctx, "vouch on "+s.node.Name()+" to be "+what, 50*time.Millisecond, func() (bool, error) {
		if !s.proc.Running() {
			cancel(fmt.Errorf("it ended: %w", s.proc.Err()))
		}
		v, err = s.status(ctx)
		return err == nil && ok(v), err
	})
	return v, err
}

// ready, up and down are what until waits for.
func ready(v view) bool { return v.Ready }
func up(v view) bool    { return v.Ready && v.all("up") }
func down(v view) bool  { return v.all("down") }

func (v view) all(verdict string) bool {
	for _, s := range v.Services {
		if s.Verdict != verdict {
			return false
		}
	}
	return len(v.Services) > 0
}
