package checks

import "net/netip"

// A Targeter is a Spec whose check talks to addresses of its own choice, which Targets gives with their
// zones. A managed prefix must not be among them: once withdrawn it leads to another node, and that one
// would be asked. Targets is called only after Validate found nothing.
type Targeter interface {
	Targets() []netip.Addr
}

// A Hinter is a Spec that knows the way out of a value of the wrong type, such as a name where a key
// takes a number. Hint gives "" for a key that it knows none of.
type Hinter interface {
	Hint(key string) string
}

// A Named is a Spec whose check wants to know whose it is. SetName is called once, before New.
type Named interface {
	SetName(service, check string)
}

// A Localer is a Spec that can tell what of it does not fit the machine it is on, such as a source
// address that is not there, or a file that cannot be read. Local is called only after Validate found
// nothing, at start and by "vouch validate"; it changes nothing, and asks no server. What it finds is
// told, and does not keep the agent from starting: it may come to be there later.
type Localer interface {
	Local() []Problem
}

// An Asker is a Spec that asks from somewhere, as those in which an Origin is embedded do. Astray is Origin.Astray.
type Asker interface {
	Astray(targets []netip.Addr) []Problem
}

// An Identifier is a Spec whose check can tell the answer of this node from that of another one, such
// as by NSID. Identifies says whether it is so configured: it may ask a managed prefix then.
type Identifier interface {
	Identifies() bool
}
