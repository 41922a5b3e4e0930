package main

import (
	"context"
	"errors"
	"time"

	"vouch/routers/lab"
)

const (
	// underWay is longer than any query is under way.
	underWay = 50 * time.Millisecond
	// tail is how long the client goes on after a return before its losses are counted.
	tail = 500 * time.Millisecond
)

// loss counts the queries that a client of the anycast address lost while unbound on one of two nodes
// died and came back, and while one was drained and resumed.
func (b *bench) loss(ctx context.Context, r *report) (err error) {
	n, err := open(ctx, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	began := time.Now()
	s, err := b.vouches(ctx, n, watched())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.proc.Stop()) }()
	if _, err := n.atCore(ctx, began, 1, true); err != nil {
		return err
	}
	client := n.Client.Stream(ctx, lab.StreamConfig{Server: lab.Service.Addr(), Timeout: 500 * time.Millisecond})
	defer func() { err = errors.Join(err, client.Stop()) }()
	if err := b.deaths(ctx, n, client, r); err != nil {
		return err
	}
	return b.planned(ctx, n, s, client, r)
}

// deaths counts what is lost with an unbound that dies and comes back.
func (b *bench) deaths(ctx context.Context, n *network, client *lab.Stream, r *report) error {
	var sent, within, after, outside sample
	shown.begin("loss, death and return", b.runs)
	for range b.runs {
		began := time.Now()
		c, err := n.die(ctx)
		if err != nil {
			return err
		}
		end, err := ending(ctx, client)
		if err != nil {
			return err
		}
		from := c.died.Add(-underWay)
		sent = append(sent, float64(client.Between(began, end).Sent))
		within = append(within, float64(len(client.Lost(from, c.off))))
		after = append(after, float64(len(client.Lost(c.off, c.gone))))
		outside = append(outside, float64(len(client.Lost(began, from))+len(client.Lost(c.gone, end))))
		shown.step()
	}
	r.add("death and return: sent, one each 5 ms", "queries", sent)
	r.add("  lost between death and withdrawal on the node", "queries", within)
	r.add("  lost from there until the core had it", "queries", after)
	r.add("  lost outside of that, the return included", "queries", outside)
	return nil
}

// planned counts what is lost with a drain and a resume of a node that is well.
func (b *bench) planned(ctx context.Context, n *network, s *sidecar, client *lab.Stream, r *report) error {
	var sent, lost sample
	shown.begin("loss, drain and resume", b.runs)
	for range b.runs {
		began := time.Now()
		for _, there := range []bool{false, true} {
			var ignored spread
			if err := n.drain(ctx, s, 1, there, &ignored); err != nil {
				return err
			}
		}
		end, err := ending(ctx, client)
		if err != nil {
			return err
		}
		sent = append(sent, float64(client.Between(began, end).Sent))
		lost = append(lost, float64(len(client.Lost(began, end))))
		shown.step()
	}
	r.add("drain and resume: sent", "queries", sent)
	r.add("  lost", "queries", lost)
	return nil
}

// ending lets the client go on a little, and gives the time before which all of its queries were
// answered or lost.
func ending(ctx context.Context, client *lab.Stream) (time.Time, error) {
	if err := pause(ctx, tail); err != nil {
		return time.Time{}, err
	}
	end := time.Now()
	return end, client.Settled(ctx, end)
}
