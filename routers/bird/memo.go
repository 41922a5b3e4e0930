package bird

import (
	"bytes"
	"maps"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"vouch/routers"
	"vouch/routers/bird/include"
)

// A memo is what the method of an include file keeps in mind between its calls. Nothing of it decides what is
// announced. Its methods may be called concurrently: a file that does not answer holds up nobody but who reads it.
type memo struct {
	mu       sync.Mutex
	tried    bool
	rests    map[station]rest        // the protocols that were disabled at run time
	shelves  map[string]shelf        // by path
	verdicts map[talker]verdict      // on the configuration of each BIRD
	known    map[string][][]byte     // by path: what vouch last wrote, or found there when it was to write; both while it writes
	changed  map[string][2]time.Time // by path: when it was found to be another than that, the last time but one and the last
}

// A station is a protocol of one BIRD: the two of 1.6 may have protocols by the same name.
type station struct {
	bird     talker
	protocol string
}

// A rest is why a protocol was disabled at run time, and what was last asked of all the prefixes that it has.
type rest struct {
	why   error
	asked map[netip.Prefix]routers.Want
}

// first is true once.
func (m *memo) first() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	first := !m.tried
	m.tried = true
	return first
}

// disabled notes why protocols were disabled at run time, and the prefixes that each has.
func (m *memo) disabled(t talker, held map[string]map[netip.Prefix]bool, why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, ps := range held {
		if m.rests == nil {
			m.rests = map[station]rest{}
		}
		r := rest{why: why, asked: map[netip.Prefix]routers.Want{}}
		for p := range ps {
			r.asked[p] = routers.Withdrawn
		}
		m.rests[station{t, name}] = r
	}
}

// ask notes what is asked of prefixes whose protocol was disabled at run time, and gives these protocols of a BIRD,
// each with what was last asked of all that it has.
func (m *memo) ask(t talker, cs []routers.Change) map[string]map[netip.Prefix]routers.Want {
	m.mu.Lock()
	defer m.mu.Unlock()
	resting := map[string]map[netip.Prefix]routers.Want{}
	for s, r := range m.rests {
		if s.bird != t {
			continue
		}
		for _, c := range cs {
			if _, has := r.asked[c.Prefix]; has {
				r.asked[c.Prefix] = c.Want
			}
		}
		resting[s.protocol] = maps.Clone(r.asked)
	}
	return resting
}

// enabled forgets protocols that were disabled at run time.
func (m *memo) enabled(t talker, names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		delete(m.rests, station{t, name})
	}
}

// mended notes that a BIRD has the file in force, so that what was disabled at run time is enabled as far as that
// lets it.
func (m *memo) mended(t talker) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.rests, func(s station, _ rest) bool { return s.bird == t })
}

// resting says of protocols of a BIRD that are down, though a definition lets their prefix pass, by whom and why.
func (m *memo) resting(t talker, protocols []string, definition string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range protocols {
		if r := m.rests[station{t, p}]; r.why != nil {
			return "protocol " + p + " was disabled at run time by vouch, as the file could not be put in force (" + r.why.Error() + ")"
		}
	}
	return few(protocols) + " with its route is down: disabled at run time, or by something else than " + definition
}

// contestTime is within what two changes of a file by something else than vouch are one tool that does it again and
// again: a day, and by what a nightly job may be late.
const contestTime = 25 * time.Hour

// write puts text in the place of the file at path; nil removes it.
func (m *memo) write(path string, text []byte) error {
	m.mu.Lock()
	was := m.known[path]
	m.know(path, append(slices.Clone(was), text)...)
	m.mu.Unlock()
	err := include.Write(path, text)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.know(path, was...)
	} else {
		m.know(path, text)
	}
	return err
}

// read gives the file at path, which is to be written, and counts it where it is not what vouch knew it to be.
func (m *memo) read(path string) ([]byte, error) {
	text, err := include.Read(path)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.known[path]) > 0 && !m.isKnown(path, text) {
		if m.changed == nil {
			m.changed = map[string][2]time.Time{}
		}
		m.changed[path] = [2]time.Time{m.changed[path][1], time.Now()}
	}
	m.know(path, text)
	return text, nil
}

func (m *memo) know(path string, texts ...[]byte) {
	if m.known == nil {
		m.known = map[string][][]byte{}
	}
	m.known[path] = texts
}

func (m *memo) isKnown(path string, text []byte) bool {
	return slices.ContainsFunc(m.known[path], func(was []byte) bool { return bytes.Equal(was, text) })
}

// knows tells whether the file at path is as vouch last wrote or found it.
func (m *memo) knows(path string) bool {
	text, err := include.Read(path)
	m.mu.Lock()
	defer m.mu.Unlock()
	return err == nil && m.isKnown(path, text)
}

// contested says that something else than vouch changes a file again and again. It stays so until that has stopped for
// contestTime.
func (m *memo) contested(path string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, last := m.changed[path][0], m.changed[path][1]
	return last.Sub(before) < contestTime && time.Since(last) < contestTime
}

// examine tells of a file that is contested, in the same words as long as it is.
func (m *memo) examine(path string) []routers.Finding {
	if !m.contested(path) {
		return nil
	}
	return []routers.Finding{{Severity: routers.Warning, Subject: path,
		Text:   "something else than vouch changes it, or puts another in its place, again and again, the last two times within a day: vouch writes it anew each time, and until then bird may read the other",
		WayOut: "find who writes it, such as Ansible, Puppet, Salt, a backup that is restored, or a script beside `birdc configure`, and take the file out of that"}}
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
	st, sure := stampOf(path)
	m.mu.Lock()
	s, ok := m.shelves[path]
	m.mu.Unlock()
	if ok && sure && s.stamp == st {
		return s
	}
	f := lookAt(path)
	s = shelf{file: f, stamp: st, kept: judge(f)}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.shelves == nil {
		m.shelves = map[string]shelf{}
	}
	m.shelves[path] = s
	return s
}
