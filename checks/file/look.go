package file

import (
	"context"
	"sync"
)

// A table holds the looks that are under way, of all who look in this process: one at a time of each path. A
// look cannot be broken off. Where a file system is dead (NFS) it never ends and holds a thread, and there
// must not be one more for each reload of the configuration.
type table struct {
	lookUp func(path string, read bool) finding

	mu    sync.Mutex
	under map[view]*look
}

// looks is the one of this process.
var looks = newTable(lookUp)

func newTable(lookUp func(path string, read bool) finding) *table {
	return &table{lookUp: lookUp, under: map[view]*look{}}
}

// A view is what is looked at: whether there is something, or what it holds too.
type view struct {
	path string
	read bool
}

// A look is one that is under way.
type look struct {
	done  chan struct{} // closed when there is the finding
	found finding
}

// look gives what is found by a look that begins now or later, or false when ctx ends first.
func (t *table) look(ctx context.Context, v view) (finding, bool) {
	for old := t.current(v); ; {
		l := t.join(v)
		select {
		case <-l.done:
			if l != old { // which says how things were
				return l.found, true
			}
		case <-ctx.Done():
			return finding{}, false
		}
	}
}

// current gives the look that is under way, or nil.
func (t *table) current(v view) *look {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.under[v]
}

// join gives the look that is under way, and begins one if there is none.
func (t *table) join(v view) *look {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.under[v]
	if l == nil {
		l = &look{done: make(chan struct{})}
		t.under[v] = l
		go t.run(v, l)
	}
	return l
}

func (t *table) run(v view, l *look) {
	l.found = t.lookUp(v.path, v.read)
	t.mu.Lock()
	delete(t.under, v)
	t.mu.Unlock()
	close(l.done)
}
