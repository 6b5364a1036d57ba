package drill

import "strings"

// executions counts how often each of this run's ids is among those that were executed, and how many others are there. An id is
// found in whatever stands around it, so that lines of a log do.
func (l *load) executions(lines []string) (times map[string]int, others int) {
	times = map[string]int{}
	for _, line := range lines {
		i := strings.Index(line, l.prefix)
		if i < 0 {
			others++
			continue
		}
		end := i + len(l.prefix)
		for end < len(line) && line[end] >= '0' && line[end] <= '9' {
			end++
		}
		if end > i+len(l.prefix) {
			times[line[i:end]]++
		}
	}
	return times, others
}
