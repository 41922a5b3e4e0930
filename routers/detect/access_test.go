package detect

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestAllows(t *testing.T) {
	for _, c := range []struct {
		perm fs.FileMode
		user User
		need fs.FileMode
		want bool
	}{
		{0o660, User{UID: 10}, 2, true},
		{0o660, User{UID: 11, GIDs: []uint32{5, 20}}, 2, true},
		{0o660, User{UID: 11, GIDs: []uint32{5}}, 2, false},
		{0o602, User{UID: 11, GIDs: []uint32{20}}, 2, false}, // a member is not one of the others
		{0o062, User{UID: 10, GIDs: []uint32{20}}, 2, false}, // nor is the owner a member
		{0o602, User{UID: 11}, 2, true},
		{0o640, User{UID: 11, GIDs: []uint32{20}}, 2, false},
		{0o750, User{UID: 11, GIDs: []uint32{20}}, 1, true},
		{0o750, User{UID: 11}, 1, false},
		{0o720, User{UID: 11, GIDs: []uint32{20}}, 3, false}, // all of it is needed
		{0o730, User{UID: 11, GIDs: []uint32{20}}, 3, true},
		{0, User{UID: 0}, 2, false}, // root without the right, in a unit that lacks it
		{0, User{UID: 11, Any: true}, 2, true},
	} {
		if got := allows(c.perm, 10, 20, c.user, c.need); got != c.want {
			t.Errorf("%o for %+v to %o: %t", c.perm, c.user, c.need, got)
		}
	}
}

// The directories count as much as the socket; a group that would help is named, each once.
func TestBarriers(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "vouch-detect")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	inner := filepath.Join(dir, "frr")
	path := filepath.Join(inner, "zebra.vty")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	who := User{Name: "vouch", UID: 4242, GIDs: []uint32{4242}}
	gid := os.Getgid()
	if gid == 0 {
		gid = 4343
	}
	group := groupName(uint32(gid))
	for _, c := range []struct {
		outer, dir, socket fs.FileMode
		closed             int
		way                string
	}{
		{0o755, 0o755, 0o666, 0, ""},
		{0o755, 0o755, 0o660, 1, "usermod -aG " + group + " vouch, and restart vouch"},
		{0o755, 0o750, 0o660, 2, "usermod -aG " + group + " vouch, and restart vouch"},
		{0o755, 0o755, 0o600, 1, "open " + path + " to the group (chmod)"},
		{0o755, 0o700, 0o660, 2, "usermod -aG " + group + " vouch, and restart vouch; open " + inner + " to the group (chmod)"},
		{0o700, 0o755, 0o666, 1, "open " + dir + " to the group (chmod)"},
	} {
		for p, m := range map[string]fs.FileMode{path: c.socket, inner: c.dir, dir: c.outer} {
			if err := errors.Join(os.Chown(p, -1, gid), os.Chmod(p, m)); err != nil {
				t.Fatal(err)
			}
		}
		bs := Barriers(path, who)
		if len(bs) != c.closed || Passage(bs, who) != c.way {
			t.Errorf("%o %o %o: %v, %q, want %d, %q", c.outer, c.dir, c.socket, bs, Passage(bs, who), c.closed, c.way)
		}
		for _, b := range bs {
			if !strings.Contains(b.String(), ":"+group+")") {
				t.Errorf("%s does not name the group", b)
			}
		}
		if bs := Barriers(path, User{UID: 4242, GIDs: []uint32{uint32(gid)}}); c.way != "" && !strings.Contains(c.way, "open") && len(bs) > 0 {
			t.Errorf("a member is kept out: %v", bs)
		}
		if bs := Barriers(path, User{UID: 4242, Any: true}); len(bs) > 0 {
			t.Errorf("one whom no file is closed to is kept out: %v", bs)
		}
	}
}

// Nobody is told to join root's group.
func TestPassageByRoot(t *testing.T) {
	bs := []Barrier{{Path: "/run/frr", Group: "frr", Member: true}, {Path: "/run/frr/zebra.vty", Group: "root", Member: true}}
	want := "usermod -aG frr vouch, and restart vouch; give /run/frr/zebra.vty a group that vouch is in, other than root (chgrp)"
	if got := Passage(bs, User{Name: "vouch"}); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	s := Socket{Group: "root", perm: 0o660}
	if got := s.joining(); strings.Contains(got, "root") {
		t.Error(got)
	}
}

// A file is replaced in its directory; its own mode only keeps from reading it.
func TestFileBarriers(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "vouch-detect")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "vouch.conf")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	who := User{Name: "vouch", UID: 4242, GIDs: []uint32{4242}}
	for _, c := range []struct {
		dir, file fs.FileMode
		who       User
		closed    []string
	}{
		{0o757, 0o644, who, nil},
		{0o755, 0o644, who, []string{dir}},
		{0o752, 0o644, who, []string{dir}},
		{0o775, 0o644, User{UID: 4242, GIDs: []uint32{uint32(os.Getgid())}}, nil},
		{0o757, 0o640, who, []string{path}},
		{0o700, 0o600, who, []string{dir, path}},
		{0o700, 0o600, User{Any: true, UID: 4242}, nil},
	} {
		if err := errors.Join(os.Chmod(dir, c.dir), os.Chmod(path, c.file)); err != nil {
			t.Fatal(err)
		}
		var closed []string
		for _, b := range FileBarriers(path, c.who) {
			closed = append(closed, b.Path)
		}
		if !slices.Equal(closed, c.closed) {
			t.Errorf("%o and %o for %+v: closed by %q, want %q", c.dir, c.file, c.who, closed, c.closed)
		}
	}
}

// The kernel has a socket by the path that it was bound to, which may lead through a link: Debian's FRR binds to
// /var/run/frr.
func TestListeningThroughALink(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "run")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(link, "zebra.vty"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	heard := readListening()
	if !heard.certain(filepath.Join(dir, "zebra.vty")) || !heard.certain(filepath.Join(link, "zebra.vty")) || heard.certain(filepath.Join(dir, "ospfd.vty")) {
		t.Errorf("%v", heard)
	}
}
