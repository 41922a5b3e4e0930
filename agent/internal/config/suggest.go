package config

import (
	"cmp"
	"slices"
)

// closest gives the word that was probably meant, or "" when none is near enough: one edit for
// short words, one for every three letters of longer ones.
func closest(got string, words []string) string {
	best, least := "", max(1, len(got)/3)+1
	for _, w := range slices.Sorted(slices.Values(words)) {
		if d := distance(got, w); d < least {
			best, least = w, d
		}
	}
	return best
}

// Nearest gives words by how few edits lead from got to them, those that are equally near in order.
func Nearest(got string, words []string) []string {
	return slices.SortedStableFunc(slices.Values(slices.Sorted(slices.Values(words))), func(a, b string) int {
		return cmp.Compare(distance(got, a), distance(got, b))
	})
}

// distance counts the edits from a to b: a letter put in, left out, replaced, or exchanged with
// its neighbour.
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+differ(a[i-1], b[j-1]))
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

func differ(a, b byte) int {
	if a == b {
		return 0
	}
	return 1
}
