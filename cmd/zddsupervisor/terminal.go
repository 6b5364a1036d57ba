package main

import (
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// A screen is where a command writes to: a terminal, or not one.
type screen struct {
	out      io.Writer
	terminal bool
	colors   bool
}

// newScreen looks at out. A terminal that says it is dumb is none, and NO_COLOR (https://no-color.org) is heeded.
func newScreen(out io.Writer) screen {
	_, _, terminal := terminalSize(out)
	terminal = terminal && os.Getenv("TERM") != "dumb"
	return screen{out: out, terminal: terminal, colors: terminal && os.Getenv("NO_COLOR") == ""}
}

// size returns how many columns and rows there are now; 0 means as many as are wanted.
func (s screen) size() (width, height int) {
	if !s.terminal {
		return 0, 0
	}
	width, height, _ = terminalSize(s.out)
	return width, height
}

// terminalWidth tells whether out is a terminal, and how wide it is.
func terminalWidth(out io.Writer) (width int, terminal bool) {
	width, _, terminal = terminalSize(out)
	return width, terminal
}

// terminalSize tells whether out is a terminal, and how large it is.
func terminalSize(out io.Writer) (width, height int, terminal bool) {
	f, ok := out.(*os.File)
	if !ok {
		return 0, 0, false
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, 0, false
	}
	var size *unix.Winsize
	if raw.Control(func(fd uintptr) { size, err = unix.IoctlGetWinsize(int(fd), unix.TIOCGWINSZ) }) != nil || err != nil {
		return 0, 0, false
	}
	if size.Col == 0 || size.Row == 0 { // it does not know
		return 80, 24, true
	}
	return int(size.Col), int(size.Row), true
}

// A style is how a terminal shows text: the number of ECMA-48's "select graphic rendition", or "" for plain.
type style string

const (
	plain  style = ""
	bold   style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

// paint shows text in a style, where there are colors.
func (s screen) paint(text string, as style) string {
	if !s.colors || as == plain || text == "" {
		return text
	}
	return "\x1b[" + string(as) + "m" + text + "\x1b[0m"
}

// fit cuts a text that is not painted to width columns, where that is not 0. Control characters, which nobody here has meant,
// become blanks.
func fit(text string, width int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	if width <= 0 || utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}

// wrap breaks a text that is not painted into lines of at most width columns, where that is not 0, at blanks if it can. All but
// the first begin with indent blanks.
func wrap(text string, width, indent int) []string {
	text = fit(text, 0)
	if width <= indent {
		return []string{text}
	}
	var lines []string
	for rest := []rune(text); ; {
		most := width
		if len(lines) > 0 {
			most -= indent
		}
		if len(rest) <= most {
			return append(lines, indented(rest, len(lines), indent))
		}
		at := most
		for at > 0 && rest[at] != ' ' {
			at--
		}
		if at == 0 { // one long word
			at = most
		}
		lines = append(lines, indented(rest[:at], len(lines), indent))
		for rest = rest[at:]; len(rest) > 0 && rest[0] == ' '; {
			rest = rest[1:]
		}
	}
}

func indented(text []rune, line, indent int) string {
	if line == 0 {
		return string(text)
	}
	return strings.Repeat(" ", indent) + string(text)
}
