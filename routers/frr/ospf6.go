package frr

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// intraPrefixes is what ospf6d answers of area-scoped LSAs (8.4.4).
type intraPrefixes struct {
	Areas []struct {
		LSAs []struct {
			Age      int `json:"age"`
			Prefixes []struct {
				Prefix netip.Prefix `json:"prefix"`
				Cost   int          `json:"metric"`
			} `json:"prefix"`
		} `json:"lsa"`
	} `json:"areaScopedLinkStateDb"`
}

// externals6 is what ospf6d answers of external LSAs (8.4.4).
type externals6 struct {
	Scopes []struct {
		LSAs []struct {
			Age    int          `json:"age"`
			Prefix netip.Prefix `json:"prefix"`
			Cost   int          `json:"metric"`
		} `json:"lsa"`
	} `json:"asScopedLinkStateDb"`
}

// ospf6Early: ospf6d takes the number of the second in which an LSA was made from that of now (8.4.4, 10.3),
// so that one of 10 ms may be called one second old.
const ospf6Early = 1

func parseOSPF6(intra, external, neighbor string) (lsdb, error) {
	var in intraPrefixes
	var ex externals6
	var nb struct {
		Neighbors []struct {
			ID    string `json:"neighborId"`
			State string `json:"state"`
			Since string `json:"duration"`
		} `json:"neighbors"`
	}
	for _, part := range []struct {
		text string
		into any
	}{{intra, &in}, {external, &ex}, {neighbor, &nb}} {
		if err := decodeWhole(part.text, part.into); err != nil {
			return lsdb{}, err
		}
	}
	db := lsdb{held: map[netip.Prefix]entry{}, age: -1, early: ospf6Early}
	db.holdIntra(in)
	db.holdExternal(ex)
	for _, n := range nb.Neighbors {
		if n.State == "Full" {
			db.adjacent(n.ID, seconds(n.Since), false)
		}
	}
	slices.Sort(db.neighbors)
	return db, nil
}

// readPending reads what the neighbours have not acknowledged. The answer's keys are ID%interface. Where there
// is none, nothing is known of it.
func (db *lsdb) readPending(text string) {
	var all map[string]struct {
		State string   `json:"neighborState"`
		LSAs  []string `json:"reTransListLsa"` // such as [Intra-Prefix Id:0.0.0.0 Adv:10.0.1.2]
	}
	if decode(text, &all) != nil {
		return
	}
	for key, n := range all {
		id, _, _ := strings.Cut(key, "%")
		if n.State != "Full" || len(n.LSAs) == 0 || !slices.Contains(db.neighbors, id) {
			continue
		}
		db.adjacent(id, -1, true)
		if slices.ContainsFunc(n.LSAs, func(l string) bool { return strings.HasPrefix(l, "[Router ") || strings.HasPrefix(l, "[Intra-Prefix ") }) {
			db.apart = append(db.apart, id)
		}
	}
	slices.Sort(db.behind)
}

// seconds reads "01:02:03", also with days before it ("4d01:02:03"), and is -1 for anything else.
func seconds(text string) int {
	days := 0
	if d, rest, ok := strings.Cut(text, "d"); ok {
		n, err := strconv.Atoi(d)
		if err != nil {
			return -1
		}
		days, text = n, rest
	}
	var h, m, s int
	if _, err := fmt.Sscanf(text, "%d:%d:%d", &h, &m, &s); err != nil {
		return -1
	}
	return ((days*24+h)*60+m)*60 + s
}

func (db *lsdb) holdIntra(in intraPrefixes) {
	for _, area := range in.Areas {
		for _, l := range area.LSAs {
			if l.Age >= maxAge {
				continue
			}
			if db.age < 0 || l.Age < db.age {
				db.age = l.Age
			}
			for _, p := range l.Prefixes {
				db.hold(p.Prefix.Masked(), entry{intraPrefix, p.Cost, l.Age})
			}
		}
	}
}

func (db *lsdb) holdExternal(ex externals6) {
	for _, scope := range ex.Scopes {
		for _, l := range scope.LSAs {
			if l.Age < maxAge {
				db.hold(l.Prefix.Masked(), entry{externalLSA, l.Cost, l.Age})
			}
		}
	}
}
