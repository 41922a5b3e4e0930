package program

import (
	"context"
	"net/netip"
	"strings"

	"vouch/routers"
	"vouch/routers/command"
)

// Examine looks whether this process could start the programs. It runs none.
func (r *Router) Examine(_ context.Context, _ []netip.Prefix) []routers.Finding {
	var fs []routers.Finding
	for _, c := range []struct {
		action string
		argv   []string
	}{{actionUp, r.options.Up}, {actionDown, r.options.Down}, {actionDegrade, r.options.Degrade}, {actionRead, r.options.Read}} {
		if len(c.argv) > 0 {
			fs = append(fs, examine(c.action, c.argv[0]))
		}
	}
	if len(r.options.Read) == 0 {
		fs = append(fs, routers.Finding{Severity: routers.Notice, Subject: "read",
			Text:   "there is no read command: a prefix counts as announced or withdrawn when its command exits with 0, and what an earlier run left is not known",
			WayOut: "set read in [router] to a command that tells how far ANYCAST_PREFIX has come"})
	}
	return fs
}

func examine(action, program string) routers.Finding {
	f := routers.Finding{Subject: action}
	path, err := command.Look(program)
	switch {
	case err == nil:
		f.Text = path + " can be run"
	case strings.Contains(program, "/"):
		f.Severity, f.Text = routers.Failing, err.Error()
		f.WayOut = "put the program there, executable by the user that vouch runs as, or correct " + action + " in [router]"
	default:
		f.Severity, f.Text = routers.Failing, err.Error()
		f.WayOut = "write its absolute path in " + action + " in [router], or install it"
	}
	return f
}
