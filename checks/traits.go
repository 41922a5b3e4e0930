package checks

import "net/netip"

// A Targeter is a Spec whose check talks to addresses of its own choice. A managed prefix must not
// be among them: once withdrawn it leads to another node, and that one would be asked. Targets is
// called only after Validate found nothing.
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
