package frr

import (
	"context"
	"net/netip"

	"vouch/routers"
)

// Examine is to come.
func (r *Router) Examine(ctx context.Context, ps []netip.Prefix) []routers.Finding { return nil }

func configDir(socketDir string) string { return "/etc/frr" }
