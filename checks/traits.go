package checks

import "net/netip"

// A Targeter is a Spec whose check talks to addresses of its own choice. A managed prefix must not
// be among them: once withdrawn it leads to another node, and that one would be asked. Targets is
// called only after Validate found nothing.
type Targeter interface {
	Targets() []netip.Addr
}

// A Named is a Spec whose check wants to know whose it is. SetName is called once, before New.
type Named interface {
	SetName(service, check string)
}
