// Package suggest finds what somebody meant who has misspelt a word.
package suggest

import (
	"fmt"
	"strings"
)

// DidYouMean returns the known word that the given one was probably meant to be, as the end of an error message
// (` (did you mean "timeout"?)`), or "". A word that one begins with, or that lacks the table before the dot, counts as
// near.
func DidYouMean(word string, known []string) string {
	best, least := "", max(2, len(word)/3)+1
	for _, k := range known {
		d := edits(word, k)
		if len(word) >= 3 && (strings.HasPrefix(k, word) || strings.HasSuffix(k, "."+word)) {
			d = 0
		}
		if d < least && d < len(word) {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}

// edits is how many bytes have to be put in, left out or changed to make b of a (Levenshtein). What is known is ASCII.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		above := row[0]
		row[0]++
		for j := range len(b) {
			change := above
			if a[i] != b[j] {
				change++
			}
			above = row[j+1]
			row[j+1] = min(change, above+1, row[j]+1)
		}
	}
	return row[len(b)]
}
