package program

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"vouch/routers"
	"vouch/routers/command"
)

// Examine looks whether this process could start the programs, and says what their last runs in this process
// came to. It runs none.
func (r *Router) Examine(_ context.Context, _ []netip.Prefix) []routers.Finding {
	var fs []routers.Finding
	for _, c := range []struct {
		action string
		argv   []string
	}{{actionUp, r.options.Up}, {actionDown, r.options.Down}, {actionDegrade, r.options.Degrade}, {actionRead, r.options.Read}} {
		if len(c.argv) == 0 {
			continue
		}
		f := examine(c.action, c.argv[0])
		if failed := r.failures(c.action); f.Severity == routers.Fine && len(failed) > 0 {
			f.Severity, f.Text = routers.Warning, "the last run failed: "+listed(failed)
			f.WayOut = "run it by hand as the user that vouch runs as, with ANYCAST_PREFIX and ANYCAST_ACTION set"
		}
		fs = append(fs, f)
	}
	if len(r.options.Read) == 0 {
		fs = append(fs, routers.Finding{Severity: routers.Notice, Subject: "read",
			Text:   "there is no read command: a prefix counts as announced or withdrawn when its command exits with 0, and what an earlier run left is not known",
			WayOut: "set read in [router] to a command that tells how far ANYCAST_PREFIX has come"})
	}
	return fs
}

// listed tells of the first ones, and how many more there are.
func listed(all []string) string {
	if len(all) <= most {
		return strings.Join(all, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(all[:most], "; "), len(all)-most)
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
