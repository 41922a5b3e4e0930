package detect

import (
	"fmt"
	"os"
	"slices"

	"vouch/routers"
)

// Beside warns that another daemon runs beside the one that is driven.
func Beside(driven string, other Found) routers.Finding {
	return routers.Finding{Severity: routers.Warning, Subject: "auto",
		Text:   fmt.Sprintf("%s is driven, and %s runs too (%s): started anew, vouch would choose neither", driven, other.Name(), other.By),
		WayOut: fmt.Sprintf("set daemon = %q in [router], or stop %s", driven, other.Daemon)}
}

// others gives the rows that might have been chosen in place of c.
func (r *Router) others(c *choice) []row {
	return slices.DeleteFunc(slices.Clone(r.rows), func(o row) bool { return o.name == c.row.name })
}

// lookBeside notes which other daemons listen. It connects to none.
func (r *Router) lookBeside(c *choice) {
	var heard listening
	var names []string
	for _, w := range r.others(c) {
		for _, path := range w.sockets(r.options) {
			if _, err := os.Lstat(path); err != nil {
				continue
			}
			if heard == nil {
				heard = readListening()
			}
			if heard.on(path) {
				names = append(names, w.name)
				break
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.beside = names
}
