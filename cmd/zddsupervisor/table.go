package main

import (
	"strings"
	"unicode/utf8"
)

// A cell is one field of a table.
type cell struct {
	text string
	as   style
}

// A table is printed in columns that are as wide as what is in them. The last one is cut where the screen ends.
type table struct{ rows [][]cell }

// head begins a table with the names of its columns.
func head(names ...string) *table {
	t := new(table)
	row := make([]cell, len(names))
	for i, name := range names {
		row[i] = cell{name, faint}
	}
	t.rows = append(t.rows, row)
	return t
}

func (t *table) add(row ...cell) { t.rows = append(t.rows, row) }

// tableGap is the room between two columns.
const tableGap = 2

// lines returns the table in lines that are no longer than width, where that is not 0.
func (t *table) lines(s screen, width int) []string {
	var widths []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(fit(c.text, 0)))
		}
	}
	lines := make([]string, 0, len(t.rows))
	for _, row := range t.rows {
		var line strings.Builder
		used := 0
		for i, c := range row {
			text := fit(c.text, 0)
			if width > 0 {
				if text = ""; used < width {
					text = fit(c.text, width-used)
				}
			}
			line.WriteString(s.paint(text, c.as))
			used += utf8.RuneCountInString(text)
			if i == len(row)-1 {
				break
			}
			pad := widths[i] - utf8.RuneCountInString(text) + tableGap
			if width > 0 {
				pad = max(0, min(pad, width-used))
			}
			line.WriteString(strings.Repeat(" ", pad))
			used += pad
		}
		lines = append(lines, strings.TrimRight(line.String(), " "))
	}
	return lines
}
