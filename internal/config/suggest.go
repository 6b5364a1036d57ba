package config

import (
	"fmt"
	"strings"
)

// didYouMean returns the end of an error message about a word that is not known:
// the known one that it probably was meant to be, or "".
func didYouMean(word string, known []string) string {
	best, least := "", max(2, len(word)/3)+1
	for _, k := range known {
		if strings.HasSuffix(k, "."+word) { // left out its table
			return fmt.Sprintf(" (did you mean %q?)", k)
		}
		if d := edits(word, k); d < least && d < len(word) {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}

// edits is how many characters have to be put in, left out or changed to make b
// of a. Only their bytes count: what is known is ASCII.
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
