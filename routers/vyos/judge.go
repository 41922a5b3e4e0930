package vyos

import (
	"vouch/routers"
	"vouch/routers/frr"
)

// A made is what was read, where we make it, of what announces one prefix.
type made struct {
	there    bool
	degraded bool
	unread   error  // it could not be read
	kin      bool   // zebra's routes of its protocol are ours also where it is not there
	foreign  string // what else is there, which is not ours
	what     string // what it is, such as "the kernel route"
	where    string // where it is made, such as "the kernel"
}

// judge joins what FRR knows of a prefix and what was made for it. The protocol's table has the last word: what
// it announces is announced, whatever became of the route.
func judge(o frr.Origin, m made) routers.Observation {
	there := m.there || m.kin && o.There
	out := routers.Observation{Prefix: o.Prefix, Stage: o.Stage, Peers: o.Peers, Detail: o.Detail, Degraded: m.degraded}
	switch {
	case m.unread != nil:
		out.Detail = join(out.Detail, m.where+" cannot be read: "+m.unread.Error())
		if o.Stage < routers.Selected {
			out.Stage = routers.Unknown
		}
	case o.Stage == routers.Unknown:
		out.Detail = join(o.Detail, place(o, m))
	case o.Stage >= routers.Selected && !m.there:
		out.Broken = true
		out.Detail = join(join(o.Detail, "although "+m.what+" is not in "+m.where), o.Orphan())
	case o.Stage == routers.Advertised:
	case o.Unread != nil:
		out.Stage, out.Detail = routers.Unknown, join(o.Why(), o.Detail)
	case there && o.Selected:
		out.Stage = routers.Selected
		if o.Stage == routers.Absent {
			out.Detail = join(m.what+" is selected, but not redistributed", o.Detail)
		}
	case there:
		out.Stage = max(o.Stage, routers.Configured)
		out.Detail = join(place(o, m), o.Detail)
	}
	if m.foreign != "" {
		out.Detail = join(out.Detail, m.foreign)
	}
	return out
}

// place tells what there is while the protocol cannot be read.
func place(o frr.Origin, m made) string {
	if !m.there {
		return m.what + " is not in " + m.where
	}
	return join(m.what+" is in "+m.where, o.Why())
}

// join puts two details together.
func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}
