// Package detect finds out which routing daemon runs on this host and drives that one.
package detect

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"vouch/routers"
	"vouch/routers/bird"
	"vouch/routers/frr"
)

// Options are those of the drivers that there is a choice of.
type Options struct {
	// FRR without a Protocol means whichever of its daemons run: ospfd or bgpd.
	FRR  frr.Options
	BIRD bird.Options
	VyOS string   // what is there on VyOS only; default its commit program
	Only []string // the daemons that may be chosen ("frr", "bird"); empty: any
}

// A row is one daemon that can be found. Its functions change nothing.
type row struct {
	name    string
	sockets func(Options) []string // where it may listen
	look    func(context.Context, Options, listening) Found
	open    func(Options, Found) routers.Router
}

// rows is the table of all daemons.
var rows = []row{frrRow, birdRow}

// among gives the rows that may be chosen.
func (o Options) among() []row {
	if len(o.Only) == 0 {
		return rows
	}
	return slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return !slices.Contains(o.Only, r.name) })
}

// A Found is what was found of one daemon.
type Found struct {
	Daemon  string   `json:"daemon"`            // frr, bird
	Running bool     `json:"running"`           // a socket of it is listened on, or its program reaches it
	Version string   `json:"version,omitempty"` // such as 8.4.4; empty: it did not say
	By      string   `json:"by,omitempty"`      // the socket or the program that it was found by
	Unclear string   `json:"unclear,omitempty"` // why it cannot be driven though it runs
	Sockets []Socket `json:"sockets"`           // every place that was looked at
	// Programs are those that are installed, which alone says nothing of what runs.
	Programs []string `json:"programs"`

	protocol string // frr: which of its daemons run
	socket   string // bird: which of the sockets answers
	socket6  string
}

// Name gives such as "frr 8.4.4".
func (f Found) Name() string {
	if f.Version == "" {
		return f.Daemon
	}
	return f.Daemon + " " + f.Version
}

// Look looks for every daemon that may be chosen, and gives one Found for each. It changes nothing, and
// returns soon after ctx ends. A daemon that hangs takes up to a second, or half of the time there is.
func Look(ctx context.Context, o Options) []Found {
	heard := readListening()
	fs := make([]Found, 0, len(rows))
	for _, r := range o.among() {
		fs = append(fs, r.look(ctx, o, heard))
	}
	return fs
}

// Choose gives the one that is to be driven. Otherwise its error, of class routers.ErrUnavailable, names
// all that was looked at, or those between which it is not for vouch to choose, and the way out.
func Choose(fs []Found) (Found, error) {
	var running []Found
	for _, f := range fs {
		if f.Running {
			running = append(running, f)
		}
	}
	switch {
	case len(running) == 0:
		return Found{}, routers.Errorf(routers.ErrUnavailable, "no routing daemon runs here: %s; start the one that this node is to have, "+
			"or say in [router] where it listens: socket_dir for frr, socket for bird", absence(fs))
	case len(running) > 1:
		names, keys := make([]string, len(running)), make([]string, len(running))
		for i, f := range running {
			names[i], keys[i] = fmt.Sprintf("%s (%s)", f.Name(), f.By), fmt.Sprintf("daemon = %q", f.Daemon)
		}
		return Found{}, routers.Errorf(routers.ErrUnavailable, "more than one routing daemon runs here, and none is driven: %s; set %s in [router], or stop the one that is not meant",
			strings.Join(names, " and "), strings.Join(keys, " or "))
	case running[0].Unclear != "":
		return Found{}, routers.Errorf(routers.ErrUnavailable, "%s: %s", running[0].Name(), running[0].Unclear)
	}
	return running[0], nil
}

// absence says of each daemon why it does not run, and what is there of it all the same.
func absence(fs []Found) string {
	texts := make([]string, len(fs))
	for i, f := range fs {
		texts[i] = f.Daemon + ": " + f.places()
		if len(f.Programs) > 0 {
			texts[i] += " (" + strings.Join(f.Programs, " and ") + " installed)"
		}
	}
	return strings.Join(texts, "; ")
}

// places tells of all sockets, those with the same problem together.
func (f Found) places() string {
	var problems []string
	paths := map[string][]string{}
	for _, s := range f.Sockets {
		if !slices.Contains(problems, s.Problem) {
			problems = append(problems, s.Problem)
		}
		paths[s.Problem] = append(paths[s.Problem], s.Path)
	}
	texts := make([]string, len(problems))
	for i, p := range problems {
		texts[i] = strings.Join(paths[p], ", ") + ": " + p
	}
	return strings.Join(texts, "; ")
}

// unknown is what is read where no daemon is driven.
func unknown(ps []netip.Prefix, err error) []routers.Observation {
	os := make([]routers.Observation, len(ps))
	for i, p := range ps {
		os[i] = routers.Observation{Prefix: p, Detail: err.Error()}
	}
	return os
}

// askTime is how long one socket may take to answer. Tests give it more.
var askTime = time.Second

// patience bounds a look: half of the time there is stays for the driver.
func patience(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return min(askTime, time.Until(end)/2)
	}
	return askTime
}
