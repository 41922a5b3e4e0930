package vyostest

import (
	_ "embed"
	"slices"
	"strings"
)

//go:embed script-template
var scriptTemplate string

// verbs are what vbash takes for its own in configuration mode, each by every beginning of its name.
var verbs = []string{"comment", "commit", "commit-confirm", "compare", "confirm", "copy", "delete", "discard", "edit", "exit",
	"load", "merge", "rename", "rollback", "run", "save", "set", "show"}

// template is what a script of vbash sources.
func (s *System) template(style string) string {
	var b strings.Builder
	b.WriteString(scriptTemplate)
	done := map[string]bool{}
	for _, verb := range verbs {
		for i := range verb {
			short := verb[:i+1]
			whole := slices.Contains(verbs, short)
			if done[short] || whole && short != verb {
				continue
			}
			done[short] = true
			b.WriteString("alias " + short + "=" + alias(short) + "\n")
		}
	}
	env := "export " + strings.Join(env(s.inner), " ")
	return strings.NewReplacer("@ROOT@", s.inner, "@ENV@", env, "@STYLE@", style, "@VERBS@", strings.Join(verbs, " ")).Replace(b.String())
}

// alias is what a word of vbash becomes.
func alias(word string) string {
	if strings.HasPrefix("exit", word) && len(word) > 1 {
		return "'eval $(config_exit)'"
	}
	return "'config_verb " + word + "'"
}
