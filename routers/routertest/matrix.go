package routertest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Matrix gives the results as a table for people: a line for each subject, a column for each scenario, and
// below it why fields are empty.
func Matrix(results []Result) string {
	var subjects []string
	fields := map[[2]string]Result{}
	for _, r := range results {
		if !slices.Contains(subjects, r.Subject) {
			subjects = append(subjects, r.Subject)
		}
		fields[[2]string{r.Subject, r.Scenario}] = r
	}
	slices.Sort(subjects)
	var b strings.Builder
	fmt.Fprintf(&b, "| %-36s", "")
	for _, sc := range scenarios {
		fmt.Fprintf(&b, " | %s", sc.name)
	}
	b.WriteString(" |\n| ---" + strings.Repeat(" | ---", len(scenarios)) + " |\n")
	why := map[string][]string{}
	for _, s := range subjects {
		fmt.Fprintf(&b, "| %-36s", s)
		for _, sc := range scenarios {
			r, ok := fields[[2]string{s, sc.name}]
			fmt.Fprintf(&b, " | %*s", -len(sc.name), mark(r, ok))
			if r.Why != "" {
				why[sc.name+": "+r.Why] = append(why[sc.name+": "+r.Why], s)
			}
		}
		b.WriteString(" |\n")
	}
	for _, w := range slices.Sorted(maps.Keys(why)) {
		fmt.Fprintf(&b, "— %s: %s\n", w, strings.Join(why[w], "; "))
	}
	return b.String()
}

func mark(r Result, played bool) string {
	switch {
	case !played:
		return ""
	case r.Err != nil:
		return "FAILS"
	case r.Why != "":
		return "—"
	}
	return "yes"
}
