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
// thread uses it. But for Follow, its methods are called one at a time.
type Source[T any] interface {
	// Follow calls hint for every burst of changes until ctx ends; then it returns nil. Concerns says
	// whose want a change may have to do with. An error means that no further hints will come.
	Follow(ctx context.Context, hint func(concerns func(want T) bool)) error
	// Add is told of one more want, and follows it from then on. After an error it is as if it had not
	// been told. It is called concurrently with Follow.
	Add(want T) error
	// Remove takes back an Add: what nobody wants any more need not be followed. It is called concurrently
	// with Follow.
	Remove(want T)
	// Close is called once, after Follow has returned.
	Close()
}

// A Hub shares a Source among all subscriptions in the same network namespace. The Source is open while
// there are any.
type Hub[T any] struct {
	// Open opens a Source in the network namespace of the calling thread. It wants nothing yet.
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
}

type member[T any] struct {
	want T
	wake func()
	over func(error)
	stop func() bool // true: its context has not ended, and its end will not be heeded any more
}

// Watch calls wake once after subscribing to the changes in the network namespace of the calling thread,
// and then for every burst of changes that has to do with want, until ctx ends; then it returns nil. An
// error means that no further hints will come; Watch may be called again then.
//
// Watch blocks; wake is called from the same goroutine. While it blocks, hints gather into one.
func (h *Hub[T]) Watch(ctx context.Context, want T, wake func()) error {
	hinted, ended := make(chan struct{}, 1), make(chan error, 1)
	h.Subscribe(ctx, want, func() {
		select {
		case hinted <- struct{}{}:
		default: // more say no more
		}
	}, func(err error) { ended <- err })
	for {
		select {
		case err := <-ended:
			return err
		case <-hinted:
			wake()
		}
	}
}

// Subscribe is Watch that does not block, and costs no goroutine. It calls wake from any goroutine, one
// call at a time, and over once, after the last wake, with what Watch returns. Both may be called before
// Subscribe returns. Neither may block, and wake may not call the Hub.
func (h *Hub[T]) Subscribe(ctx context.Context, want T, wake func(), over func(error)) {
	if err := h.join(ctx, &member[T]{want: want, wake: wake, over: over}); err != nil {
		over(err)
	}
}

// join adds a member to the feed of the thread's namespace, and starts that where there is none.
func (h *Hub[T]) join(ctx context.Context, m *member[T]) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	here := Here()
	f, found := h.feeds[here]
	if !found {
		source, err := h.Open()
		if err != nil {
			return err
		}
		f = &feed[T]{source: source, members: map[*member[T]]struct{}{}, ended: make(chan struct{})}
	}
	if err := f.source.Add(m.want); err != nil {
		if !found {
			f.source.Close()
		}
		return err
	}
	f.members[m] = struct{}{}
	if !found {
		h.start(here, f)
	}
	m.stop = context.AfterFunc(ctx, func() {
		h.leave(f, m)
		m.over(nil)
	})
	m.wake()
	return nil
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
		err := f.source.Follow(ctx, func(concerns func(T) bool) { h.hint(f, concerns) })
		if err == nil {
			err = errors.New("the subscription ended unasked")
		}
		left := h.forget(f)
		f.source.Close()
		close(f.ended)
		for _, m := range left {
			m.over(err)
		}
	}()
}

// forget has the next subscription open another Source, and gives the members that are to be told. A member
// whose context has ended as well is on its way out, and hears of that.
func (h *Hub[T]) forget(f *feed[T]) (left []*member[T]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(f)
	for m := range f.members {
		if m.stop() {
			left = append(left, m)
		}
	}
	clear(f.members)
	return left
}

// drop is called with the lock held.
func (h *Hub[T]) drop(f *feed[T]) {
	maps.DeleteFunc(h.feeds, func(_ Namespace, other *feed[T]) bool { return other == f })
}

func (h *Hub[T]) hint(f *feed[T], concerns func(T) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for m := range f.members {
		if concerns(m.want) {
			m.wake()
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

// part says whether nobody is left, as in a feed that was forgotten: then nothing is taken back.
func (h *Hub[T]) part(f *feed[T], m *member[T]) (last bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(f.members, m)
	if len(f.members) > 0 {
		f.source.Remove(m.want)
		return false
	}
	h.drop(f)
	return true
}
