package checktest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/godbus/dbus/v5"
)

const (
	systemdName = "org.freedesktop.systemd1"
	systemdPath = dbus.ObjectPath("/org/freedesktop/systemd1")
)

// A Unit is what systemd says of a unit: properties as "systemctl show" prints them.
type Unit map[string]string

// ParseUnit reads what "systemctl show" has printed.
func ParseUnit(text string) Unit {
	u := Unit{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
			u[key] = value
		}
	}
	return u
}

// With gives a copy of which some properties are others: key, value, ….
func (u Unit) With(pairs ...string) Unit {
	c := maps.Clone(u)
	for i := 0; i+1 < len(pairs); i += 2 {
		c[pairs[i]] = pairs[i+1]
	}
	return c
}

// A Systemd is a private bus (a real dbus-daemon) with a stand-in for systemd on it, which says of units what
// it was told to say. Its methods may be called concurrently.
type Systemd struct {
	Socket string // of the bus

	tb     testing.TB
	config string
	daemon *exec.Cmd
	conn   *dbus.Conn

	mu          sync.Mutex
	units       map[string]Unit // by id and by alias
	asked       int
	subscribers map[dbus.Sender]bool
	silent      chan struct{} // while not nil, calls are answered when it is closed
}

// NewSystemd starts both. They end with the test, which is skipped where there is no dbus-daemon; with CI=true
// it fails.
func NewSystemd(tb testing.TB) *Systemd {
	tb.Helper()
	if _, err := exec.LookPath("dbus-daemon"); err != nil {
		if os.Getenv("CI") == "true" {
			tb.Fatal("no dbus-daemon: install Debian's package dbus-daemon")
		}
		tb.Skip("SKIPPED: no dbus-daemon: install Debian's package dbus-daemon")
	}
	dir, err := os.MkdirTemp("", "bus") // a socket's path must be short
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	s := &Systemd{Socket: filepath.Join(dir, "bus"), config: filepath.Join(dir, "conf"), tb: tb, units: map[string]Unit{}}
	config := `<busconfig><type>system</type><listen>unix:path=` + s.Socket + `</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/><allow user="*"/></policy></busconfig>`
	if err := os.WriteFile(s.config, []byte(config), 0o600); err != nil {
		tb.Fatal(err)
	}
	s.StartBus()
	s.Appear()
	tb.Cleanup(s.StopBus)
	return s
}

// StartBus starts the bus, with nobody on it.
func (s *Systemd) StartBus() {
	s.tb.Helper()
	s.daemon = exec.Command("dbus-daemon", "--config-file="+s.config, "--nofork", "--nopidfile", "--print-address=1")
	var told bytes.Buffer
	s.daemon.Stderr = &told
	out, err := s.daemon.StdoutPipe()
	if err == nil {
		err = s.daemon.Start()
	}
	if err != nil {
		s.tb.Fatalf("dbus-daemon: %v", err)
	}
	if _, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		_ = s.daemon.Process.Kill()
		_ = s.daemon.Wait()
		s.tb.Fatalf("dbus-daemon: %v: %s", err, told.String())
	}
}

// StopBus ends the bus, and with it every connection.
func (s *Systemd) StopBus() {
	s.Vanish()
	_ = s.daemon.Process.Kill()
	_ = s.daemon.Wait()
	_ = os.Remove(s.Socket)
}

// Address gives the bus's address, as DBUS_SYSTEM_BUS_ADDRESS takes it.
func (s *Systemd) Address() string { return "unix:path=" + s.Socket }

// Pid gives the process of the bus.
func (s *Systemd) Pid() int { return s.daemon.Process.Pid }

// Appear brings systemd onto the bus; it knows no subscribers yet.
func (s *Systemd) Appear() {
	s.tb.Helper()
	conn, err := dbus.Connect(s.Address())
	if err != nil {
		s.tb.Fatalf("connect to the bus: %v", err)
	}
	s.mu.Lock()
	s.conn, s.subscribers = conn, map[dbus.Sender]bool{}
	s.mu.Unlock()
	err = errors.Join(
		conn.ExportMethodTable(map[string]any{"ListUnitsByNames": s.list, "Subscribe": s.subscribe, "ListUnitFiles": s.files}, systemdPath, systemdName+".Manager"),
		conn.ExportSubtreeMethodTable(map[string]any{"Get": s.get}, systemdPath+"/unit", "org.freedesktop.DBus.Properties"))
	if err == nil {
		_, err = conn.RequestName(systemdName, dbus.NameFlagDoNotQueue)
	}
	if err != nil {
		s.tb.Fatalf("put systemd on the bus: %v", err)
	}
}

// Vanish takes systemd off the bus.
func (s *Systemd) Vanish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
}

// Set makes a unit so, and tells those that have subscribed.
func (s *Systemd) Set(u Unit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range strings.Fields(u["Names"] + " " + u["Id"]) {
		s.units[name] = u
	}
	if s.conn != nil && len(s.subscribers) > 0 {
		_ = s.conn.Emit(unitPath(u["Id"]), "org.freedesktop.DBus.Properties.PropertiesChanged", systemdName+".Unit", map[string]dbus.Variant{}, []string{})
	}
}

// Reloaded tells that systemd has read its files again; units, if given, are all that there are now.
func (s *Systemd) Reloaded(units ...Unit) {
	s.mu.Lock()
	s.units = map[string]Unit{}
	for _, u := range units {
		s.units[u["Id"]] = u
	}
	conn := s.conn
	s.mu.Unlock()
	_ = conn.Emit(systemdPath, systemdName+".Manager.Reloading", false)
}

// Silence has calls wait until the function that it gives is called.
func (s *Systemd) Silence() (speak func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gate := make(chan struct{})
	s.silent = gate
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.silent = nil
		close(gate)
	})
}

// Asked gives how many calls came.
func (s *Systemd) Asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// Subscribers gives how many have asked for signals.
func (s *Systemd) Subscribers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.subscribers)
}

// begin counts a call, and holds it up while there is silence.
func (s *Systemd) begin() {
	s.mu.Lock()
	s.asked++
	gate := s.silent
	s.mu.Unlock()
	if gate != nil {
		<-gate
	}
}

func (s *Systemd) unit(name string) Unit {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u, ok := s.units[name]; ok {
		return u
	}
	return Unit{"Id": name, "LoadState": "not-found", "ActiveState": "inactive", "SubState": "dead", "Result": "success"}
}

type listedUnit struct {
	Name, Description, Load, Active, Sub, Follows string
	Path                                          dbus.ObjectPath
	Job                                           uint32
	JobType                                       string
	JobPath                                       dbus.ObjectPath
}

func (s *Systemd) list(names []string) ([]listedUnit, *dbus.Error) {
	s.begin()
	var all []listedUnit
	for _, n := range names {
		u := s.unit(n)
		all = append(all, listedUnit{Name: u["Id"], Load: u["LoadState"], Active: u["ActiveState"], Sub: u["SubState"],
			Path: unitPath(u["Id"]), JobPath: "/"})
	}
	return all, nil
}

func (s *Systemd) subscribe(sender dbus.Sender) *dbus.Error {
	s.begin()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subscribers[sender] {
		return dbus.NewError(systemdName+".AlreadySubscribed", []any{"Client is already subscribed."})
	}
	s.subscribers[sender] = true
	return nil
}

type unitFile struct{ Path, State string }

func (s *Systemd) files() ([]unitFile, *dbus.Error) {
	s.begin()
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []unitFile
	for name := range s.units {
		all = append(all, unitFile{"/lib/systemd/system/" + name, "enabled"})
	}
	return all, nil
}

func (s *Systemd) get(m dbus.Message, iface, property string) (dbus.Variant, *dbus.Error) {
	s.begin()
	path, _ := m.Headers[dbus.FieldPath].Value().(dbus.ObjectPath)
	name := unescape(strings.TrimPrefix(string(path), string(systemdPath)+"/unit/"))
	if iface == systemdName+".Service" && !strings.HasSuffix(name, ".service") {
		return dbus.Variant{}, dbus.NewError("org.freedesktop.DBus.Error.UnknownInterface", []any{"Unknown interface " + iface})
	}
	text := s.unit(name)[property]
	n, _ := strconv.ParseInt(text, 10, 64)
	switch property {
	case "NRestarts":
		return dbus.MakeVariant(uint32(n)), nil
	case "ExecMainCode", "ExecMainStatus":
		return dbus.MakeVariant(int32(n)), nil
	case "InactiveExitTimestampMonotonic":
		return dbus.MakeVariant(uint64(n)), nil
	}
	return dbus.MakeVariant(text), nil
}

// unitPath gives a unit's object: what is no letter and no digit is escaped.
func unitPath(name string) dbus.ObjectPath {
	var b strings.Builder
	for i, c := range []byte(name) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || i > 0 && c >= '0' && c <= '9' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return systemdPath + "/unit/" + dbus.ObjectPath(b.String())
}

func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '_' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
