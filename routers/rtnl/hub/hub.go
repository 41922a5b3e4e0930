// Package hub lets many share one subscription to what the kernel tells of changes: a thousand checks
// need not have a thousand sockets, each of which the kernel would write every message to.
package hub

import (
	"context"
	"errors"
	"maps"
	"sync"
)

// A Source is one subscription. It belongs to the network namespace that it was opened in, whichever
// thread uses it.
type Source[T any] interface {
	// Follow calls hint for every burst of changes until ctx ends; then it returns nil. Concerns says
	// whose want a change may have to do with. An error means that no further hints will come.
	Follow(ctx context.Context, hint func(concerns func(want T) bool)) error
	// Narrow is told all that is wanted, whenever that changes: the rest need not be followed. It is
	// called concurrently with Follow.
	Narrow(wants []T) error
	// Close is called once, after Follow has returned.
	Close()
}

// A Hub shares a Source among all Watches in the same network namespace. The Source is open while there
// are any.
type Hub[T any] struct {
	// Open opens a Source in the network namespace of the calling thread.
	Open func() (Source[T], error)

	mu    sync.Mutex
	feeds map[Namespace]*feed[T]
}

// A feed is a Source that is followed, and its members. The Hub's lock guards the members.
type feed[T any] struct {
	source  Source[T]
	members map[*member[T]]struct{}
	cancel  context.CancelFunc
	ended   chan struct{}
	err     error // when ended is closed
}

type member[T any] struct {
	want   T
	hinted chan struct{} // has room for one hint: more say no more
}

// Watch calls wake once after subscribing to the changes in the network namespace of the calling thread,
// and then for every burst of changes that has to do with want, until ctx ends; then it returns nil. An
// error means that no further hints will come; Watch may be called again then.
//
// Watch blocks; wake is called from the same goroutine. While it blocks, hints gather into one.
func (h *Hub[T]) Watch(ctx context.Context, want T, wake func()) error {
	m := &member[T]{want, make(chan struct{}, 1)}
	f, err := h.join(m)
	if err != nil {
		return err
	}
	defer h.leave(f, m)
	for wake(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-f.ended:
			return f.err
		case <-m.hinted:
			wake()
		}
	}
}

// join adds a member to the feed of the thread's namespace, and starts that where there is none.
func (h *Hub[T]) join(m *member[T]) (*feed[T], error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	here := Here()
	f := h.feeds[here]
	if f == nil {
		source, err := h.Open()
		if err != nil {
			return nil, err
		}
		f = &feed[T]{source: source, members: map[*member[T]]struct{}{}, ended: make(chan struct{})}
		if err := f.add(m); err != nil {
			source.Close()
			return nil, err
		}
		h.start(here, f)
		return f, nil
	}
	if err := f.add(m); err != nil {
		delete(f.members, m)
		return nil, err
	}
	return f, nil
}

// start follows a feed in a goroutine; the last member to leave waits for it.
func (h *Hub[T]) start(here Namespace, f *feed[T]) {
	if h.feeds == nil {
		h.feeds = map[Namespace]*feed[T]{}
	}
	h.feeds[here] = f
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	go func() {
		defer close(f.ended)
		f.err = f.source.Follow(ctx, func(concerns func(T) bool) { h.hint(f, concerns) })
		if f.err == nil {
			f.err = errors.New("the subscription ended unasked")
		}
		h.forget(f)
		f.source.Close()
	}()
}

// forget has the next Watch open another Source.
func (h *Hub[T]) forget(f *feed[T]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(f)
}

// drop is called with the lock held.
func (h *Hub[T]) drop(f *feed[T]) {
	maps.DeleteFunc(h.feeds, func(_ Namespace, other *feed[T]) bool { return other == f })
}

func (h *Hub[T]) hint(f *feed[T], concerns func(T) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for m := range f.members {
		if !concerns(m.want) {
			continue
		}
		select {
		case m.hinted <- struct{}{}:
		default:
		}
	}
}

// leave ends the feed with its last member.
func (h *Hub[T]) leave(f *feed[T], m *member[T]) {
	if h.part(f, m) {
		f.cancel()
		<-f.ended
	}
}

// part says whether that was the last member. A Source that cannot be narrowed tells more than is wanted,
// which hint passes over.
func (h *Hub[T]) part(f *feed[T], m *member[T]) (last bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(f.members, m)
	if len(f.members) > 0 {
		_ = f.narrow()
		return false
	}
	h.drop(f)
	return true
}

func (f *feed[T]) add(m *member[T]) error {
	f.members[m] = struct{}{}
	return f.narrow()
}

func (f *feed[T]) narrow() error {
	wants := make([]T, 0, len(f.members))
	for m := range f.members {
		wants = append(wants, m.want)
	}
	return f.source.Narrow(wants)
}
