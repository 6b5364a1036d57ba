package doctor

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// WriteText writes findings for a person: what they are about, and below that each with what it means and what makes it right.
func WriteText(w io.Writer, findings []Finding) error {
	var b strings.Builder
	about := ""
	count := make(map[Severity]int)
	for _, f := range findings {
		if f.About != about {
			if about != "" {
				b.WriteByte('\n')
			}
			fmt.Fprintln(&b, oneLine(f.About))
			about = f.About
		}
		count[f.Severity]++
		mark := string(f.Severity)
		if f.Severity == Fine {
			mark = "ok"
		}
		fmt.Fprintf(&b, "  %-6s  %s\n", mark, oneLine(f.What))
		if f.Means != "" {
			fmt.Fprintf(&b, "          %s\n", oneLine(f.Means))
		}
		if f.Fix != "" {
			fmt.Fprintf(&b, "          fix: %s\n", oneLine(f.Fix))
		}
	}
	b.WriteByte('\n')
	switch {
	case count[Fails] == 1:
		b.WriteString("1 thing will not work")
	case count[Fails] > 1:
		fmt.Fprintf(&b, "%d things will not work", count[Fails])
	default:
		b.WriteString("nothing was found that will not work")
	}
	if n := count[Warns]; n > 0 {
		fmt.Fprintf(&b, ", %d could be better", n)
	}
	if n := count[Unseen]; n > 0 {
		fmt.Fprintf(&b, ", %d could not be looked at", n)
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}

// oneLine makes one line of a text. Control characters, which are nobody's here, become blanks: a terminal would obey them.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
}
