package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Query is one question of a Stream and what became of it.
type Query struct {
	Sent     time.Time
	Answered time.Time // zero: not (yet)
	Node     string    // who answered, by its identity
	Lost     error     // why there will be no answer; nil: answered, or still waited for
}

// A Tally counts queries.
type Tally struct {
	Sent, Answered, Lost, Waiting int
	ByNode                        map[string]int // answered, by who did
}

// String gives the counts for people, such as "400 sent, 3 lost, apu01 198, apu02 199".
func (t Tally) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d sent, %d lost", t.Sent, t.Lost)
	if t.Waiting > 0 {
		fmt.Fprintf(&b, ", %d waiting", t.Waiting)
	}
	for _, node := range slices.Sorted(maps.Keys(t.ByNode)) {
		fmt.Fprintf(&b, ", %s %d", node, t.ByNode[node])
	}
	return b.String()
}

// A StreamConfig says what a Stream asks, and how often.
type StreamConfig struct {
	Server  netip.Addr
	Every   time.Duration // from one query to the next; default 5 ms
	Timeout time.Duration // no answer after this: lost; default 1 s
}

// A Stream is a client that asks a name server who it is, again and again, each time from a socket
// of its own, so that the queries spread over equal paths as those of many clients do. Its methods
// may be called concurrently.
type Stream struct {
	conf StreamConfig
	stop context.CancelFunc
	done chan struct{}

	mu      sync.Mutex
	queries []Query // in the order of sending
	err     error
}

// Stream starts a stream from the node. It ends with ctx or with Stop.
func (nd *Node) Stream(ctx context.Context, conf StreamConfig) *Stream {
	conf.Every = cmp.Or(conf.Every, 5*time.Millisecond)
	conf.Timeout = cmp.Or(conf.Timeout, time.Second)
	ctx, cancel := context.WithCancel(ctx)
	s := &Stream{conf: conf, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		var waiting sync.WaitGroup
		err := nd.Do(func() error { return s.send(ctx, &waiting) })
		waiting.Wait()
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
	}()
	return s
}

// send sends the queries; it runs inside the node, so its sockets are the node's.
func (s *Stream) send(ctx context.Context, waiting *sync.WaitGroup) error {
	server := net.UDPAddrFromAddrPort(netip.AddrPortFrom(s.conf.Server, 53))
	tick := time.NewTicker(s.conf.Every)
	defer tick.Stop()
	for {
		c, err := net.DialUDP("udp", nil, server)
		n := s.sent()
		if err != nil { // no route to the server: a query that is lost at once
			s.ended(n, "", err)
		} else {
			waiting.Go(func() { s.await(n, c) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// await asks the question number n on a socket and waits for the answer.
func (s *Stream) await(n int, c *net.UDPConn) {
	defer c.Close()
	// Not the stream's ctx: a query that was sent is waited for, also when no more are sent.
	answer, err := exchange(context.Background(), c, IdentityQuestion(), s.conf.Timeout)
	node := ""
	if err == nil {
		if node = identity(answer); node == "" {
			err = errors.New("the answer names no server")
		}
	}
	s.ended(n, node, err)
}

func (s *Stream) sent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queries = append(s.queries, Query{Sent: time.Now()})
	return len(s.queries) - 1
}

func (s *Stream) ended(n int, node string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := &s.queries[n]
	if q.Node, q.Lost = node, err; err == nil {
		q.Answered = time.Now()
	}
}

// Stop sends no more, waits for the answers that are still to come, and says whether the stream
// could run at all.
func (s *Stream) Stop() error {
	s.stop()
	<-s.done
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Snapshot gives all queries so far.
func (s *Stream) Snapshot() []Query {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.queries)
}

// Between counts the queries sent from one time until before another.
func (s *Stream) Between(from, to time.Time) Tally {
	t := Tally{ByNode: map[string]int{}}
	for _, q := range s.window(from, to) {
		t.Sent++
		switch {
		case q.Lost != nil:
			t.Lost++
		case q.Answered.IsZero():
			t.Waiting++
		default:
			t.Answered++
			t.ByNode[q.Node]++
		}
	}
	return t
}

// Lost gives the queries sent from one time until before another that got no answer.
func (s *Stream) Lost(from, to time.Time) []Query {
	return slices.DeleteFunc(s.window(from, to), func(q Query) bool { return q.Lost == nil })
}

// window copies the queries sent in [from, to).
func (s *Stream) window(from, to time.Time) []Query {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := func(t time.Time) int {
		i, _ := slices.BinarySearchFunc(s.queries, t, func(q Query, t time.Time) int { return q.Sent.Compare(t) })
		return i
	}
	return slices.Clone(s.queries[at(from):max(at(from), at(to))])
}

// Settled waits until what became of every query sent before a time is known.
func (s *Stream) Settled(ctx context.Context, before time.Time) error {
	return Wait(ctx, "the answers to the queries", 10*time.Millisecond, func() (bool, error) {
		select {
		case <-s.done:
			return true, nil
		default:
		}
		all := s.Snapshot()
		passed := len(all) > 0 && !all[len(all)-1].Sent.Before(before)
		return passed && s.Between(time.Time{}, before).Waiting == 0, nil
	})
}

// Until waits until a number of queries sent at or after a time were answered by each of the nodes.
func (s *Stream) Until(ctx context.Context, since time.Time, number int, nodes ...string) error {
	return Wait(ctx, fmt.Sprintf("%d answers from each of %v", number, nodes), 10*time.Millisecond, func() (bool, error) {
		t := s.Between(since, time.Now())
		for _, node := range nodes {
			if t.ByNode[node] < number {
				return false, fmt.Errorf("%s", t)
			}
		}
		return true, nil
	})
}
