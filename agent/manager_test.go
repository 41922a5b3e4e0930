package agent

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"vouch/routers/lab"
)

// A manager is a service manager that writes down what it is told.
type manager struct {
	conn *net.UnixConn
	mu   sync.Mutex
	told []string
}

func newManager(t *testing.T, path string) *manager {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	must(t, err)
	m := &manager{conn: conn}
	var wg sync.WaitGroup
	wg.Go(m.listen)
	t.Cleanup(func() {
		_ = conn.Close()
		wg.Wait()
	})
	return m
}

func (m *manager) listen() {
	b := make([]byte, 4096)
	for {
		n, err := m.conn.Read(b)
		if err != nil {
			return
		}
		m.mu.Lock()
		m.told = append(m.told, string(b[:n]))
		m.mu.Unlock()
	}
}

// count gives how often something that begins so was told.
func (m *manager) count(begins string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.told {
		if strings.HasPrefix(s, begins) {
			n++
		}
	}
	return n
}

func (m *manager) until(t *testing.T, begins string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := lab.Wait(ctx, fmt.Sprintf("%q told %d times", begins, n), 5*time.Millisecond, func() (bool, error) { return m.count(begins) >= n, nil }); err != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		t.Fatalf("%v\ntold: %q", err, m.told)
	}
}

// TestServiceManager: a unit of Type=notify with a watchdog, whose check hangs: it is told of the
// start, the status, the reload and the stop, and the watchdog is fed all the while.
func TestServiceManager(t *testing.T) {
	nd, err := lab.Open(t).Node("apu01")
	must(t, err)
	path, err := built()
	must(t, err)
	dir := t.TempDir()
	file := filepath.Join(dir, "vouch.toml")
	must(t, os.WriteFile(file, fmt.Appendf(nil, `[agent]
state_file = "%[1]s/state.json"
[control]
socket = "%[1]s/control.sock"
[router]
daemon = "kernel"
[service.resolver]
prefixes = ["10.53.53.53/32"]
interval = "100ms"
on_stop = "withdraw"
[service.resolver.check.hangs]
type = "exec"
on_fail = "warn"
command = "sleep 60"
shell = true
timeout = "30s"
[service.resolver.check.works]
type = "exec"
command = ["true"]
`, dir), 0o644))
	m := newManager(t, filepath.Join(dir, "notify"))
	proc, err := nd.Start("vouch", "env", "NOTIFY_SOCKET="+filepath.Join(dir, "notify"), "WATCHDOG_USEC=300000", path, "run", "--config", file)
	must(t, err)
	m.until(t, "READY=1", 1)
	m.until(t, "STATUS=resolver up, 1 of 1 prefixes selected", 1)
	m.until(t, "WATCHDOG=1", m.count("WATCHDOG=1")+10)
	must(t, proc.Signal(syscall.SIGHUP))
	m.until(t, "RELOADING=1\nMONOTONIC_USEC=", 1)
	m.until(t, "READY=1", 2)

	must(t, proc.Stop())
	m.until(t, "STOPPING=1", 1)
	m.until(t, "EXTEND_TIMEOUT_USEC=", 1)
	out, err := nd.Run(t.Context(), "ip", "-br", "addr", "show", "dev", "lo")
	if err != nil || strings.Contains(out, "10.53.53.53") {
		t.Errorf("after the stop lo has %s %v", out, err)
	}
}
