package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Problem is one thing that is wrong with a configuration.
type Problem struct {
	File string // the file it is in, or "" if it is in no file
	Line int    // the line, from 1, or 0 if it is in none
	Flag string // the flag it is in, as "--name", or "" if it is in none
	Key  string // the key it is about, or "" if it is about the whole file
	Text string // what is wrong and what would be right
}

// String returns the problem with its place, in one line.
func (p Problem) String() string {
	text := strings.ReplaceAll(p.Text, "\n", " ")
	if at := p.place(); at != "" {
		return at + ": " + text
	}
	return text
}

// place returns where the problem is, or "".
func (p Problem) place() string {
	var parts []string
	switch {
	case p.Flag != "":
		return p.Flag // which names its key itself
	case p.Line > 0:
		parts = append(parts, fmt.Sprintf("%s:%d", p.File, p.Line))
	case p.File != "":
		parts = append(parts, p.File)
	}
	if p.Key != "" {
		parts = append(parts, p.Key)
	}
	return strings.Join(parts, ": ")
}

// Problems is the error of Source.Load: everything that is wrong, in the order in
// which it is best mended. It is never empty.
type Problems []Problem

// Error returns one line for each problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.String()
	}
	return strings.Join(lines, "\n")
}

// sort puts what is in the configuration file first, by line: a key that is
// missing is often one that is misspelt there. What has no place comes last.
func (p Problems) sort(file string) {
	rank := func(p Problem) int {
		switch {
		case p.File == file && p.Line > 0:
			return 0
		case p.Line > 0: // in another file
			return 1
		case p.Flag != "":
			return 2
		default:
			return 3
		}
	}
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
}
