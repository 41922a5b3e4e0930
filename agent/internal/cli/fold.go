package cli

import (
	"slices"
	"strings"

	"vouch/agent/internal/state"
	"vouch/routers"
)

// referFrom is how long a text must be, in bytes, for a reference to be shorter and easier to read.
const referFrom = 40

// fold joins texts, and leaves out those of their parts, which semicolons divide, that were said before: the same
// cause comes by several ways.
func fold(texts ...string) string {
	var said []string
	for _, text := range texts {
		for part := range strings.SplitSeq(text, "; ") {
			if part != "" && !within(said, part) {
				said = append(said, part)
			}
		}
	}
	return strings.Join(said, "; ")
}

// within says whether one of said says part too.
func within(said []string, part string) bool {
	return slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, part) })
}

// causes are the texts that were told already, each with what it was told of. What is nil remembers nothing.
type causes map[string]string

// causesOf begins with the router's own.
func causesOf(r *state.Router) causes {
	cs := causes{}
	if !r.OK && r.Error != "" {
		cs[r.Error] = "the router"
	}
	return cs
}

// once gives a text about p, or where something else has the same cause, a reference to that.
func (cs causes) once(p *state.Prefix, text string) string {
	if cs == nil || len(text) < referFrom {
		return text
	}
	bare := strings.ReplaceAll(text, p.Prefix, "")
	for told, of := range cs {
		if told == bare || of == "the router" && strings.Contains(told, text) {
			return "as told of " + of
		}
	}
	cs[bare] = p.Prefix
	return text
}

// lacks names the peers that have a prefix not, those with the same reason together, and leaves out reasons that
// were said.
func lacks(peers []routers.Peer, said string) string {
	var reasons []string
	names := map[string][]string{}
	for _, q := range peers {
		why := lack(&q)
		if names[why] == nil {
			reasons = append(reasons, why)
		}
		names[why] = append(names[why], q.Name)
	}
	for i, why := range reasons {
		reasons[i] = strings.Join(names[why], ", ")
		if !within([]string{said}, why) {
			reasons[i] += " (" + why + ")"
		}
	}
	return strings.Join(reasons, ", ")
}
