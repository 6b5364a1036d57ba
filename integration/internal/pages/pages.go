// Package pages reads pages of documentation as what a reader types, so that tests can type it too.
//
// A block that begins with ```sh is a script. HTML comments, which readers do not see, say more:
//
//	<!-- run: none, REASON -->   before a script: it is not run
//	<!-- fails: N -->            before a script: its exit status is N; others have to end with 0
//	<!-- file: PATH -->          before any block: it is the content of a file
//	<!-- prints: TEXT -->        after a script: its output contains TEXT
package pages

import (
	"fmt"
	"strconv"
	"strings"
)

// A Step is something that a reader of a page does.
type Step struct {
	Line   int      // of its first line, from 1
	File   string   // the path of the file that has Text; "" for a script
	Text   string   // of the script or the file
	Status int      // the exit status that the script ends with
	Prints []string // what the script's output contains
}

// Steps returns what a page has its reader do, in order. What cannot be understood is an error: a script that no test runs must not
// look like one that is run.
func Steps(page string) ([]Step, error) {
	var steps []Step
	var next Step    // what is known of the one that comes
	var skip bool    // it is not run
	var script = -1  // the last script among steps
	var block string // of the fence that is open, "" for none
	var text strings.Builder
	for i, line := range strings.Split(page, "\n") {
		info, fence := strings.CutPrefix(line, "```")
		switch {
		case block != "" && fence:
			switch {
			case skip:
			case next.File != "":
				next.Text = text.String()
				steps = append(steps, next)
			case block == "sh":
				next.Text = text.String()
				script = len(steps)
				steps = append(steps, next)
			case next.Status != 0:
				return nil, fmt.Errorf("line %d: an exit status is given for what is no script", next.Line)
			}
			block, next, skip = "", Step{}, false
		case block != "":
			text.WriteString(line + "\n")
		case fence:
			if block = info; block == "" {
				block = "text"
			}
			next.Line = i + 2
			text.Reset()
		default:
			name, value, ok := comment(line)
			if !ok {
				continue
			}
			switch name {
			case "run":
				if why, is := strings.CutPrefix(value, "none, "); !is || why == "" {
					return nil, fmt.Errorf("line %d: say why this is not run, as in \"run: none, REASON\"", i+1)
				}
				skip = true
			case "fails":
				status, err := strconv.Atoi(value)
				if err != nil || status < 1 {
					return nil, fmt.Errorf("line %d: %q is no exit status of something that fails", i+1, value)
				}
				next.Status = status
			case "file":
				next.File = value
			case "prints":
				if script < 0 || next.File != "" || next.Status != 0 {
					return nil, fmt.Errorf("line %d: no script comes before this", i+1)
				}
				steps[script].Prints = append(steps[script].Prints, value)
			}
		}
	}
	if block != "" {
		return nil, fmt.Errorf("line %d: the block has no end", next.Line-1)
	}
	return steps, nil
}

// comment returns what a line says that is one of our comments.
func comment(line string) (name, value string, ok bool) {
	text, ok := strings.CutPrefix(strings.TrimSpace(line), "<!-- ")
	if !ok {
		return "", "", false
	}
	if text, ok = strings.CutSuffix(text, " -->"); !ok {
		return "", "", false
	}
	name, value, ok = strings.Cut(text, ": ")
	return name, value, ok
}
