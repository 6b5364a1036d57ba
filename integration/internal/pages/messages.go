package pages

import "strings"

// Messages returns the messages that a page explains: its headings of the third level that are in quotation marks. Each is given in
// the parts that stand between the things that differ, for which the page has "…".
func Messages(page string) (all [][]string) {
	for line := range strings.Lines(page) {
		text, ok := strings.CutPrefix(strings.TrimSpace(line), `### "`)
		if !ok {
			continue
		}
		var parts []string
		for part := range strings.SplitSeq(strings.TrimSuffix(text, `"`), "…") {
			parts = append(parts, strings.TrimSpace(part))
		}
		all = append(all, parts)
	}
	return all
}
