package fdpass

import (
	"fmt"
	"strings"
)

// didYouMean returns the known word that the given one was probably meant to
// be, as the end of an error message, or "".
func didYouMean(word string, known []string) string {
	best, least := "", max(2, len(word)/3)+1
	for _, k := range known {
		d := distance(word, k)
		if len(word) >= 3 && strings.HasPrefix(k, word) {
			d = 0
		}
		if d < least {
			best, least = k, d
		}
	}
	if best == "" || least >= len(word) {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}

// modeHint helps with the one option whose name means something else in
// systemd and elsewhere.
func modeHint(option, value string) string {
	if option == "mode" && isNumber(value) {
		return fmt.Sprintf(" (did you mean permissions=%s?)", value)
	}
	return ""
}

// distance is how many bytes must be put in, left out, or changed to make b of
// a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
