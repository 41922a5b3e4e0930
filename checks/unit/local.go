package unit

import (
	"context"
	"fmt"
	"path"
	"time"

	"vouch/checks"
)

// localPatience is how long Local asks systemd.
const localPatience = 2 * time.Second

// Local asks systemd whether there is such a unit.
func (s *Spec) Local() []checks.Problem { return s.local(shared) }

func (s *Spec) local(b *bus) []checks.Problem {
	ctx, cancel := context.WithTimeout(context.Background(), localPatience)
	defer cancel()
	p := checks.Problem{Key: "unit", Got: s.Unit}
	l, err := b.acquire(ctx)
	if err == nil {
		defer b.release(l)
		var u listed
		if u, err = theOne(ctx, l.list(ctx, s.Unit)); err == nil {
			return l.loadable(ctx, u, p)
		}
	}
	p.What = "systemd cannot be asked whether there is such a unit: " + err.Error()
	p.WayOut = "run it where the system bus of systemd can be reached (Debian's package dbus), or remove the check"
	return []checks.Problem{p}
}

// loadable says why a unit could not be started.
func (l *link) loadable(ctx context.Context, u listed, p checks.Problem) []checks.Problem {
	switch {
	case u.Load == "loaded":
		return nil
	case u.Load == "not-found":
		p.What, p.WayOut = "there is no such unit", "install it, and run systemctl daemon-reload"
		if near := nearest(p.Got, l.unitFiles(ctx)); near != "" {
			p.WayOut = fmt.Sprintf("did you mean %q?", near)
		}
	case u.Load == "masked":
		p.What, p.WayOut = "the unit is masked", "systemctl unmask "+p.Got
	default:
		p.What, p.WayOut = "the unit cannot be loaded: "+u.Load, "see systemctl status "+p.Got
	}
	return []checks.Problem{p}
}

// unitFiles gives the names of the units that there are files of; none where that cannot be told.
func (l *link) unitFiles(ctx context.Context) []string {
	var files []struct{ Path, State string }
	if err := l.send(ctx, systemd, managerPath, managerName+".ListUnitFiles").store(ctx, &files); err != nil {
		return nil
	}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = path.Base(f.Path)
	}
	return names
}

// nearest gives the name that differs least, if that is little.
func nearest(name string, names []string) string {
	stem := len(name) - len(path.Ext(name))
	best, least := "", 1+max(1, stem/3)
	for _, n := range names {
		if d := distance(name, n, least); d < least {
			best, least = n, d
		}
	}
	return best
}

// distance counts the bytes to insert, remove or replace that make a of b; from most on it does not matter.
func distance(a, b string, most int) int {
	if len(a)-len(b) >= most || len(b)-len(a) >= most {
		return most
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := left
			if a[i] != b[j] {
				replaced++
			}
			left = row[j+1]
			row[j+1] = min(replaced, row[j]+1, left+1)
		}
	}
	return row[len(b)]
}
