package frr

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"vouch/routers"
)

// A savedConfig is a file that FRR reads when it starts.
type savedConfig struct {
	path string
	text string
	err  error
}

// readSaved reads the configuration for all daemons and those for single ones, where there are any.
func readSaved(dir string, daemons []string) []savedConfig {
	var saved []savedConfig
	for _, name := range slices.Concat([]string{"frr"}, daemons, []string{"staticd", "mgmtd"}) {
		c := savedConfig{path: filepath.Join(dir, name+".conf")}
		if slices.ContainsFunc(saved, func(s savedConfig) bool { return s.path == c.path }) {
			continue
		}
		b, err := os.ReadFile(c.path)
		if c.text, c.err = string(b), err; !errors.Is(err, os.ErrNotExist) {
			saved = append(saved, c)
		}
	}
	return saved
}

// A claim is a line of a saved configuration that brings a prefix about.
type claim struct {
	prefix netip.Prefix
	line   string // as it is written, with the block that it is in
	number int
}

// claims reads a file as FRR does: by its lines, whose indentation means nothing. Blocks of other VRFs
// are left out.
func claims(text string) []claim {
	var all []claim
	head, number := "", 0
	for line := range strings.Lines(text) {
		number++
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		at := -1
		switch {
		case slices.Contains([]string{"interface", "router", "vrf", "route-map"}, words[0]):
			head = strings.Join(words, " ")
			continue
		case words[0] == "exit" || words[0] == "exit-vrf":
			head = ""
		case len(words) < 2 || strings.Contains(head, "vrf ") || strings.Contains(head, " view "):
		case words[0] == "network" && strings.HasPrefix(head, "router bgp"):
			at = 1
		case len(words) < 3 || words[0] != "ip" && words[0] != "ipv6":
		case words[1] == "route" && line[0] != ' ', words[1] == "address" && strings.HasPrefix(head, "interface "):
			at = 2
		}
		if at < 0 {
			continue
		}
		if p, err := netip.ParsePrefix(words[at]); err == nil {
			c := claim{p.Masked(), strings.Join(words, " "), number}
			if head != "" && words[1] != "route" {
				c.line = head + ": " + c.line
			}
			all = append(all, c)
		}
	}
	return all
}

// examineSaved warns of prefixes that FRR would announce when it starts, before anybody knows whether
// their service answers. The operator's network statement for an address that comes and goes is as it
// ought to be.
func examineSaved(saved []savedConfig, o Options, ps []netip.Prefix) []routers.Finding {
	var found []routers.Finding
	readable := 0
	for _, s := range saved {
		if s.err != nil {
			found = append(found, routers.Finding{Severity: routers.Notice, Subject: s.path, Text: "cannot be read, so that nobody knows what it announces when FRR starts: " + cause(s.err).Error(),
				WayOut: "run this as root, or as a member of group frr"})
			continue
		}
		readable++
		for _, c := range claims(s.text) {
			if !slices.Contains(ps, c.prefix) || o.Method == MethodAddress && strings.Contains(c.line, ": network ") {
				continue
			}
			found = append(found, routers.Finding{Severity: routers.Warning, Subject: s.path,
				Text:   fmt.Sprintf("line %d announces %s when FRR starts, whether its service answers or not: %s", c.number, c.prefix, c.line),
				WayOut: "remove the line: vouch adds to the running configuration what is to be there, and saves nothing"})
		}
	}
	if readable > 0 && len(found) == 0 {
		found = append(found, routers.Finding{Subject: filepath.Dir(saved[0].path), Text: "the saved configuration announces no managed prefix when FRR starts"})
	}
	return found
}

// cause is the system's own error, without the path.
func cause(err error) error {
	if pe := (*os.PathError)(nil); errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
