package manual

import (
	"fmt"
	"strings"
)

// A roff is a page that is being written, in the macros of man(7).
type roff struct{ strings.Builder }

// macro writes a line that begins with a macro. Its arguments are text.
func (r *roff) macro(name string, args ...string) {
	r.WriteString("." + name)
	for _, arg := range args {
		fmt.Fprintf(r, ` "%s"`, strings.ReplaceAll(escape(arg), `"`, `\(dq`))
	}
	r.WriteByte('\n')
}

// line writes one line of text, which may have been made by bold or italic.
func (r *roff) line(text string) {
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text // it would be a macro
	}
	r.WriteString(text + "\n")
}

// text writes what a command says about itself: paragraphs, of which those whose lines begin with blanks stay as they are.
func (r *roff) text(text string) {
	for i, paragraph := range paragraphs(text) {
		if i > 0 {
			r.macro("PP")
		}
		r.paragraph(paragraph)
	}
}

func (r *roff) paragraph(paragraph string) {
	verbatim := strings.HasPrefix(paragraph, " ")
	if verbatim {
		r.WriteString(".nf\n")
	}
	for line := range strings.SplitSeq(paragraph, "\n") {
		r.line(escape(line))
	}
	if verbatim {
		r.WriteString(".fi\n")
	}
}

func paragraphs(text string) (all []string) {
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if paragraph = strings.TrimRight(strings.TrimLeft(paragraph, "\n"), " \n"); paragraph != "" {
			all = append(all, paragraph)
		}
	}
	return all
}

// escape makes text stand for itself. A hyphen is a minus sign: most are a part of what one types.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(text)
}

func bold(text string) string   { return `\fB` + escape(text) + `\fR` }
func italic(text string) string { return `\fI` + escape(text) + `\fR` }
