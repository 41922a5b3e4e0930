package bird

import (
	"os"
	"sync"
	"syscall"
	"time"
)

// A memo is what the method of an include file keeps in mind between its calls. Nothing of it decides what is
// announced.
type memo struct {
	mu      sync.Mutex
	tried   bool
	why     map[string]error // by protocol that was disabled at run time
	shelves map[string]shelf // by path
}

// first is true once.
func (m *memo) first() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	first := !m.tried
	m.tried = true
	return first
}

// disabled notes why protocols were disabled at run time.
func (m *memo) disabled(names []string, why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range names {
		if m.why == nil {
			m.why = map[string]error{}
		}
		m.why[n] = why
	}
}

// mended notes that the file is in force, so that what was disabled at run time is enabled as far as that lets it.
func (m *memo) mended() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.why = nil
}

// resting says of protocols that are down, though a definition lets their prefix pass, by whom and why.
func (m *memo) resting(protocols []string, definition string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range protocols {
		if why := m.why[p]; why != nil {
			return "protocol " + p + " was disabled at run time by vouch, as the file could not be put in force (" + why.Error() + ")"
		}
	}
	return few(protocols) + " with its route is down: disabled at run time, or by something else than " + definition
}

// A shelf is an include file as it was last read.
type shelf struct {
	file
	stamp stamp
	kept  kept
}

// A stamp tells whether a file may have changed.
type stamp struct {
	dev, ino uint64
	size     int64
	mtime    syscall.Timespec
	ctime    syscall.Timespec
}

// young is the age up to which a file may be written once more without that its stamp changes.
const young = 2 * time.Second

// stampOf gives the stamp of what is at path, through links; false where it cannot be relied on.
func stampOf(path string) (stamp, bool) {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || time.Since(time.Unix(st.Ctim.Unix())) < young {
		return stamp{}, false
	}
	return stamp{uint64(st.Dev), st.Ino, info.Size(), st.Mtim, st.Ctim}, true
}

// look gives the file at path, reading it only when it may have changed.
func (m *memo) look(path string, judge func(file) kept) shelf {
	m.mu.Lock()
	defer m.mu.Unlock()
	st, sure := stampOf(path)
	if s, ok := m.shelves[path]; ok && sure && s.stamp == st {
		return s
	}
	f := lookAt(path)
	s := shelf{file: f, stamp: st, kept: judge(f)}
	if m.shelves == nil {
		m.shelves = map[string]shelf{}
	}
	m.shelves[path] = s
	return s
}
