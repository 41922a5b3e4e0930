package vyos

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/frr"
)

func TestMayConfigure(t *testing.T) {
	for _, c := range []struct {
		uid, gid int
		may      bool
	}{{0, 0, true}, {0, 7104, true}, {998, 7104, true}, {998, 998, false}} {
		if err := mayConfigure(c.uid, c.gid, 7104); (err == nil) != c.may || err != nil && !errors.Is(err, routers.ErrRefused) {
			t.Errorf("uid %d, gid %d: %v", c.uid, c.gid, err)
		}
	}
}

// Only the very directory counts, and only a union that is served: another session's mount is not ours.
func TestMounted(t *testing.T) {
	const dir = "/opt/vyatta/config/tmp/new_config_vouch"
	for line, want := range map[string]bool{
		"unionfs-fuse " + dir + " fuse.unionfs-fuse rw 0 0":  true,
		"unionfs " + dir + " fuse rw 0 0":                    true,
		"unionfs-fuse " + dir + "2 fuse.unionfs-fuse rw 0 0": false,
		"tmpfs " + dir + " tmpfs rw 0 0":                     false,
		"overlay / overlay rw 0 0":                           false,
	} {
		s := system{t.TempDir()}
		file := s.path(mountsFile)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("proc /proc proc rw 0 0\n"+line+"\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
		if got, err := s.mounted(dir); got != want || err != nil {
			t.Errorf("%s: %v, %v", line, got, err)
		}
	}
	if _, err := (system{t.TempDir()}).mounted(dir); !errors.Is(err, routers.ErrUnavailable) {
		t.Errorf("unread: %v", err)
	}
}

// What cannot be looked at may be pending.
func TestUnsettled(t *testing.T) {
	for _, path := range []string{"", confirmTimer, shutdownPlan, filepath.Dir(confirmTimer)} {
		s := system{t.TempDir()}
		if path != "" {
			if err := errors.Join(os.MkdirAll(filepath.Dir(s.path(path)), 0o755), os.WriteFile(s.path(path), nil, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		words := map[string]string{confirmTimer: "commit-confirm is pending, ", shutdownPlan: "a reboot is planned", filepath.Dir(confirmTimer): "cannot be read"}[path]
		if why := s.unsettled(); (why == "") != (path == "") || !strings.Contains(why, words) {
			t.Errorf("%s: %q", path, why)
		}
	}
}

// What a session would change is known whole, or nothing is committed.
func TestSessionUnread(t *testing.T) {
	for script, words := range map[string]string{
		"head -c 2000000 /dev/zero | tr '\\0' '\\n'; echo \"set 'protocols'\"": "cannot be read",
		"echo \"set 'protocols'\"; exit 1":                                     "exit status 1",
		"kill -SEGV $$":                                                        "exit status",
	} {
		s := &session{system: fake(t, script), step: 10 * time.Second}
		if text, err := s.diff(t.Context()); !errors.Is(err, routers.ErrUnavailable) || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: the difference is %d bytes, %v", script, len(text), err)
		}
	}
	for script, want := range map[string]bool{"exit 0": true, "exit 1": false} {
		s := &session{system: fake(t, script), step: 10 * time.Second}
		if got, err := s.changed(t.Context()); got != want || err != nil {
			t.Errorf("%s: %v, %v", script, got, err)
		}
	}
	for _, script := range []string{"exit 2", "exit 139", "kill -SEGV $$"} {
		s := &session{system: fake(t, script), step: 10 * time.Second}
		if _, err := s.changed(t.Context()); !errors.Is(err, routers.ErrUnavailable) {
			t.Errorf("%s: %v", script, err)
		}
	}
}

func TestLate(t *testing.T) {
	s := &static{options: Options{Degraded: Degraded{Tag: 666}}}
	usual, worse := frr.Origin{There: true, Tags: []uint32{0}}, frr.Origin{There: true, Tags: []uint32{666}}
	for _, c := range []struct {
		name   string
		want   routers.Want
		origin frr.Origin
		late   bool
	}{
		{"withdrawn", routers.Withdrawn, frr.Origin{}, false},
		{"withdrawn, and there", routers.Withdrawn, usual, true},
		{"announced", routers.Announced, usual, false},
		{"announced, and not there", routers.Announced, frr.Origin{}, true},
		{"announced, and worse", routers.Announced, worse, true},
		{"degraded", routers.Degraded, worse, false},
		{"degraded, and not worse", routers.Degraded, usual, true},
	} {
		if why := s.late(c.want, c.origin); (why != "") != c.late {
			t.Errorf("%s: %q", c.name, why)
		}
	}
}

// What zebra has and staticd knows nothing of is made staticd's, and taken away then; and what FRR lost is put there.
func TestRepair(t *testing.T) {
	s := fake(t, "")
	log := s.path("log")
	if err := os.WriteFile(s.path("usr/bin/vtysh"), []byte("#!/bin/sh\nprintf '%s\\n' \"$*\" >>"+log+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	st := New(Options{Method: MethodStatic, Root: s.root}).method.(*static)
	_ = st.repair(t.Context(), plan{drop: []netip.Prefix{one}, add: []frr.Static{{Prefix: one6, Tag: 666, Distance: 7}}}) // no real vtysh is that silent
	text, _ := os.ReadFile(log)
	gone := strings.Index(string(text), "-c no "+routeLine(one))
	if there := strings.Index(string(text), "-c "+routeLine(one)); there < 0 || gone < there || !strings.Contains(string(text), "-c "+routeLine(one6)+" tag 666 7") {
		t.Errorf("%s", text)
	}
}

// What was read while somebody commits is looked at again, also where nothing was to be done: the configuration that
// comes of his commit may lack it.
func TestUnsure(t *testing.T) {
	s := &static{system: system{t.TempDir()}}
	var cs []routers.Change
	ps := []netip.Prefix{one, two, one6, netip.MustParsePrefix("192.0.2.55/32"), netip.MustParsePrefix("192.0.2.56/32")}
	for _, p := range ps {
		cs = append(cs, routers.Change{Prefix: p, Want: routers.Announced})
	}
	ps = append(ps, netip.MustParsePrefix("192.0.2.57/32")) // gone already: who brings it back is seen
	cs = append(cs, routers.Change{Prefix: ps[5], Want: routers.Withdrawn})
	made := plan{ops: []op{{prefix: one}}, add: []frr.Static{{Prefix: two}}, drop: ps[3:4], refused: []error{&routers.PrefixError{Prefix: one6, Err: routers.ErrRefused}}}
	if err := s.unsure(cs, made, 0); err != nil {
		t.Errorf("nobody commits: %v", err)
	}
	err := s.unsure(cs, made, os.Getpid())
	for i, words := range []string{"", "put right in FRR", "", "put right in FRR", "VyOS's configuration is as wanted", ""} {
		about := (*routers.PrefixError)(nil)
		if of := routers.About(err, ps[i]); errors.As(of, &about) && about.Prefix == ps[i] != (words != "") {
			t.Errorf("%s: %v", ps[i], of)
		} else if words != "" && (!errors.Is(of, routers.ErrBusy) || !strings.Contains(of.Error(), words)) {
			t.Errorf("%s: %v lacks %q", ps[i], of, words)
		}
	}
}
