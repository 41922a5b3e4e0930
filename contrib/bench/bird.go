package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"vouch/routers"
	"vouch/routers/bird"
	"vouch/routers/bird/ctl"
	"vouch/routers/lab"
)

// bird measures one question to BIRD over its socket against a forked birdc, and a thousand prefixes
// withdrawn by one configure against one configure for each.
func (b *bench) bird(ctx context.Context, r *report) (err error) {
	ps := thousandPrefixes()
	l, err := lab.Anycast(ctx, lab.AnycastOptions{BGP: true, Nodes: lab.BIRDHost, Way: lab.Routes, NoUnbound: true, Files: map[string]string{lab.IncludeFile: ""},
		Services: []lab.NamedService{{Name: "resolver", Prefixes: ps}}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	nd := l.Nodes[0]
	if err := b.birdQuery(ctx, r, nd.BIRD); err != nil {
		return err
	}
	router := bird.New(bird.Options{Method: bird.MethodInclude, Style: bird.StyleRoutes, Socket: nd.BIRD.Socket(), Include: nd.BIRD.Path(lab.IncludeFile)})
	defer func() { err = errors.Join(err, router.Close()) }()
	labels := map[netip.Prefix]routers.Label{}
	for _, p := range ps {
		labels[p] = routers.Label{Service: "resolver"}
	}
	router.SetLabels(labels)
	return b.birdBulk(ctx, r, router, ps)
}

func (b *bench) birdQuery(ctx context.Context, r *report, d *lab.BIRD) error {
	const command = "show route " + "10.53.53.53/32" + " all"
	s, err := ctl.Dial(ctx, d.Socket(), answerWithin)
	if err != nil {
		return err
	}
	defer s.Close()
	kept, err := timed(50*b.runs, syscall.RUSAGE_SELF, func() error { _, err := s.Do(ctx, command); return err })
	if err != nil {
		return err
	}
	fresh, err := timed(50*b.runs, syscall.RUSAGE_SELF, func() error {
		s, err := ctl.Dial(ctx, d.Socket(), answerWithin)
		if err != nil {
			return err
		}
		defer s.Close()
		_, err = s.Do(ctx, command)
		return err
	})
	if err != nil {
		return err
	}
	client := d.Client()
	forked, err := timed(5*b.runs, syscall.RUSAGE_CHILDREN, func() error {
		out, err := exec.CommandContext(ctx, client[0], append(client[1:], strings.Fields(command)...)...).Output()
		if len(out) == 0 {
			return err
		}
		return nil // it exits with 1 when the network is not there, which is an answer
	})
	if err != nil {
		return err
	}
	r.instead(r.add("show route P all, session kept", "ms", kept.Wall), "forked birdc", forked.Wall)
	r.instead(r.add("show route P all, session of its own", "ms", fresh.Wall), "forked birdc", forked.Wall)
	return nil
}

// birdBulk withdraws all in one go, and then some one by one, which a thousand is reckoned from.
func (b *bench) birdBulk(ctx context.Context, r *report, router *bird.Router, ps []netip.Prefix) error {
	const some = 20
	var all, single sample
	shown.begin("bird", b.few())
	for range b.few() {
		if err := settled(ctx, router, ps, routers.Announced); err != nil {
			return err
		}
		began := time.Now()
		if err := settled(ctx, router, ps, routers.Withdrawn); err != nil {
			return err
		}
		all.ms(time.Since(began))
		if err := settled(ctx, router, ps, routers.Announced); err != nil {
			return err
		}
		began = time.Now()
		for _, p := range ps[:some] {
			if err := settled(ctx, router, []netip.Prefix{p}, routers.Withdrawn); err != nil {
				return err
			}
		}
		single.ms(time.Since(began) * thousand / some)
		shown.step()
	}
	r.instead(r.add(fmt.Sprintf("%d prefixes withdrawn and read to be gone, one configure", thousand), "ms", all), "one configure a prefix", single)
	return nil
}

// settled asks once, and reads until all prefixes are as wanted.
func settled(ctx context.Context, router routers.Router, ps []netip.Prefix, want routers.Want) error {
	cs := make([]routers.Change, len(ps))
	for i, p := range ps {
		cs[i] = routers.Change{Prefix: p, Want: want}
	}
	if err := router.Apply(ctx, cs); err != nil {
		return err
	}
	return read(ctx, router, ps, want)
}

// read reads until all prefixes are as wanted.
func read(ctx context.Context, router routers.Router, ps []netip.Prefix, want routers.Want) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return lab.Wait(ctx, fmt.Sprintf("%d prefixes to be read %s", len(ps), want), time.Millisecond, func() (bool, error) {
		os, err := router.Observe(ctx, ps)
		if err != nil {
			return false, err
		}
		for _, o := range os {
			if !reached(o.Stage, want, router.Goal()) {
				return false, fmt.Errorf("%s is read %s: %s", o.Prefix, o.Stage, o.Detail)
			}
		}
		return true, nil
	})
}
