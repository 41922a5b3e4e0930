package config

import (
	"strings"
)

const commandForm = "must be a list: the program and its arguments"

// parseCommand reads a command. No shell takes part, so that all else may stand in it.
func parseCommand(raw any) (Command, *fault) {
	const example = `write ["/path/to/program", "argument"]`
	if line, ok := raw.(string); ok {
		if len(strings.Fields(line)) == 0 {
			return nil, &fault{commandForm, example}
		}
		return nil, &fault{commandForm, "write " + listOf(strings.Fields(line))}
	}
	list, ok := raw.([]any)
	if !ok || len(list) == 0 {
		return nil, &fault{commandForm, example}
	}
	c := make(Command, len(list))
	for i, e := range list {
		if c[i], ok = e.(string); !ok {
			return nil, &fault{commandForm + ", each a string in double quotes", example}
		}
	}
	switch program := c[0]; {
	case program == "", strings.Contains(program, "/") && !strings.HasPrefix(program, "/"):
		return nil, &fault{"must name the program by an absolute path, or by a name found in PATH", "write where it is from / on"}
	case strings.Contains(strings.Join(c, ""), "\x00"):
		return nil, &fault{"must not hold a NUL", "leave the NUL out"}
	}
	return c, nil
}

func listOf(words []string) string {
	list := make([]any, len(words))
	for i, w := range words {
		list[i] = w
	}
	var b strings.Builder
	writeTOML(&b, list)
	return b.String()
}
