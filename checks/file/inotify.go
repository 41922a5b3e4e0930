package file

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// burst is how long events are left to gather after some were read, so that a storm of them gives at
	// most 200 hints a second. The first event after a quiet time is never held back.
	burst = 5 * time.Millisecond
	// written are the events of a write to a file. They come often.
	written = unix.IN_MODIFY | unix.IN_CLOSE_WRITE
	// moved are the events of the file or directory itself that is watched.
	moved = unix.IN_ATTRIB | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF
	// A watch has one mask, whoever has a part in it: it depends on what is watched only.
	fileMask = moved | written
	dirMask  = moved | unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ONLYDIR
	// always are the events that concern everybody who has a part in a watch.
	always = unix.IN_IGNORED | unix.IN_UNMOUNT | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_Q_OVERFLOW
)

// A kernel shares one inotify instance among all who watch, for a user may have only 128 of them
// (fs.inotify.max_user_instances). It is there while somebody watches. It is inotify itself and not
// fsnotify, which tells nobody of a file system that was unmounted, and loses directories that are
// replaced.
type kernel struct {
	mu   sync.Mutex
	open *instance
}

// shared is the kernel's one of this process.
var shared kernel

// An instance is an inotify descriptor and the goroutine that reads it.
type instance struct {
	kernel *kernel
	file   *os.File
	fd     int
	ended  chan struct{} // closed when the goroutine ends

	mu      sync.Mutex
	seats   map[*seat]bool
	watches map[int]map[*seat]*interest // by watch descriptor
	aiming  int                         // how many add watches at this moment
	err     error                       // why no more events come
}

// An interest is what one seat wants to hear of a watch: the events in mask, of the names, or of any.
type interest struct {
	mask  uint32
	names map[string]bool // nil: any
}

// A seat is the place of one who watches.
type seat struct {
	in     *instance
	events chan struct{} // holds one when there is something new
	lost   chan struct{} // closed when no more events come
}

// A target is a file or directory to watch.
type target struct {
	path string
	name string // in the directory; "": the path itself and whatever is in it
	dir  bool
	mask uint32 // the events to hear of
}

// join gives a seat, and opens the instance for the first.
func (k *kernel) join() (*seat, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.open == nil || k.open.failed() != nil {
		in, err := newInstance(k)
		if err != nil {
			return nil, err
		}
		k.open = in
	}
	s := &seat{in: k.open, events: make(chan struct{}, 1), lost: make(chan struct{})}
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	s.in.seats[s] = true
	return s, nil
}

func newInstance(k *kernel) (*instance, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	switch {
	case errors.Is(err, unix.EMFILE):
		return nil, fmt.Errorf("inotify: %w: raise fs.inotify.max_user_instances, or LimitNOFILE of the unit", err)
	case err != nil:
		return nil, fmt.Errorf("inotify: %w", err)
	}
	in := &instance{kernel: k, fd: fd, file: os.NewFile(uintptr(fd), "inotify"), ended: make(chan struct{}),
		seats: map[*seat]bool{}, watches: map[int]map[*seat]*interest{}}
	go in.read()
	return in, nil
}

// leave gives the seat back. The last one closes the instance and waits for its goroutine.
func (s *seat) leave() {
	in := s.in
	in.kernel.mu.Lock()
	defer in.kernel.mu.Unlock()
	in.mu.Lock()
	for wd := range in.watches {
		in.drop(wd, s)
	}
	in.sweep()
	delete(in.seats, s)
	last := len(in.seats) == 0
	in.mu.Unlock()
	if !last {
		return
	}
	if in.kernel.open == in {
		in.kernel.open = nil
	}
	in.file.Close()
	<-in.ended
}

// drop takes a seat's part in a watch away.
func (in *instance) drop(wd int, s *seat) { delete(in.watches[wd], s) }

// sweep takes away the watches that nobody has a part in, unless somebody adds watches: one of these may be
// what he was given just now, and has not noted yet.
func (in *instance) sweep() {
	for wd, parts := range in.watches {
		if in.aiming == 0 && len(parts) == 0 {
			delete(in.watches, wd)
			_, _ = unix.InotifyRmWatch(in.fd, uint32(wd)) // it may have gone by itself
		}
	}
}

// aim watches the targets instead of what the seat has watched. What is not there any more is passed
// over. Those that may not be watched are given; the error is of a limit, or of the instance.
func (s *seat) aim(targets []target) (refused []target, err error) {
	if err := s.in.begin(); err != nil {
		return nil, err
	}
	parts := map[int]*interest{}
	defer func() { s.in.finish(s, parts) }()
	for _, t := range targets {
		// Nothing is locked here, for on a dead file system the kernel follows the path for ever.
		wd, err := unix.InotifyAddWatch(s.in.fd, t.path, t.kernelMask())
		switch {
		case errors.Is(err, unix.EACCES):
			refused = append(refused, t)
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		case errors.Is(err, unix.ENOSPC):
			return nil, fmt.Errorf("inotify: no more watches: raise fs.inotify.max_user_watches")
		case err != nil:
			return nil, fmt.Errorf("inotify: watch %s: %w", t.path, err)
		default:
			s.part(parts, wd, t)
		}
	}
	return refused, nil
}

// begin notes that watches are being added.
func (in *instance) begin() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.err != nil {
		return in.err
	}
	in.aiming++
	return nil
}

// finish takes away what the seat has no part in any more.
func (in *instance) finish(s *seat, parts map[int]*interest) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.aiming--
	for wd := range in.watches {
		if parts[wd] == nil {
			in.drop(wd, s)
		}
	}
	in.sweep()
}

// kernelMask is the same for all targets of a path, whatever each wants to hear of. It is added to what a watch has
// already: the kernel (6.18) sets a mask that it replaces to 0 for a moment, and loses what happens in it.
func (t target) kernelMask() uint32 {
	if t.dir {
		return dirMask | unix.IN_DONT_FOLLOW | unix.IN_MASK_ADD
	}
	return fileMask | unix.IN_DONT_FOLLOW | unix.IN_MASK_ADD
}

// part notes what the seat wants to hear of a watch, in parts and in the instance.
func (s *seat) part(parts map[int]*interest, wd int, t target) {
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	p := parts[wd]
	if p == nil {
		p = &interest{names: map[string]bool{}}
		parts[wd] = p
	}
	p.mask |= t.mask
	switch {
	case t.name == "":
		p.names = nil
	case p.names != nil:
		p.names[t.name] = true
	}
	if s.in.watches[wd] == nil {
		s.in.watches[wd] = map[*seat]*interest{}
	}
	s.in.watches[wd][s] = p
}

// wants says whether an event is of interest.
func (p *interest) wants(mask uint32, name string) bool {
	if mask&always != 0 {
		return true
	}
	return mask&p.mask != 0 && (name == "" || p.names == nil || p.names[name])
}

// read passes events on until the descriptor is closed.
func (in *instance) read() {
	defer close(in.ended)
	buf := make([]byte, 64<<10)
	pause := time.NewTimer(burst)
	defer pause.Stop()
	for {
		n, err := in.file.Read(buf)
		if err != nil {
			in.fail(fmt.Errorf("inotify: %w", err))
			return
		}
		in.deliver(buf[:n])
		pause.Reset(burst)
		<-pause.C
	}
}

// deliver tells the seats of a buffer of events.
func (in *instance) deliver(buf []byte) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(buf) >= unix.SizeofInotifyEvent {
		field := func(at int) uint32 { return binary.NativeEndian.Uint32(buf[at:]) } // struct inotify_event: wd, mask, cookie, len
		wd, mask, end := int(int32(field(0))), field(4), unix.SizeofInotifyEvent+int(field(12))
		if end > len(buf) {
			return
		}
		name, _, _ := bytes.Cut(buf[unix.SizeofInotifyEvent:end], []byte{0})
		in.event(wd, mask, string(name))
		buf = buf[end:]
	}
}

// event wakes whom it concerns. A queue that ran over concerns all.
func (in *instance) event(wd int, mask uint32, name string) {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		for s := range in.seats {
			s.wake()
		}
		return
	}
	for s, p := range in.watches[wd] {
		if p.wants(mask, name) {
			s.wake()
		}
	}
	if mask&unix.IN_IGNORED != 0 {
		delete(in.watches, wd)
	}
}

func (s *seat) wake() {
	select {
	case s.events <- struct{}{}:
	default: // there is one to come
	}
}

func (in *instance) fail(err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.err = err
	for s := range in.seats {
		close(s.lost)
	}
}

func (in *instance) failed() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.err
}

// refusedAt gives the target of that path, if it is among those that may not be watched.
func refusedAt(refused []target, path string) bool {
	return slices.ContainsFunc(refused, func(t target) bool { return t.path == path })
}
