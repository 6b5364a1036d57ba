package config

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"
)

// A variable is one line of an environment file.
type variable struct{ name, value string }

// readEnvironmentFile reads a file of EnvironmentFiles. Its errors are *Problem.
func readEnvironmentFile(path string) ([]variable, *Problem) {
	path, optional := strings.CutPrefix(path, "-")
	data, err := readRegular(path)
	if optional && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &Problem{Text: fmt.Sprintf("%s cannot be read: %v", path, cause(err))}
	}
	variables, line, err := parseEnvironment(string(data))
	if err != nil {
		return nil, &Problem{File: path, Line: line, Text: err.Error()}
	}
	return variables, nil
}

// cause returns what a *fs.PathError says beside the path, which is in the
// message already.
func cause(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// parseEnvironment reads the syntax of EnvironmentFile= in systemd.exec(5):
// KEY=VALUE in each line, comments after '#' or ';' at the beginning of a line,
// values plain or in quotation marks, in which they may have several lines, and
// a backslash at the end of a line to go on in the next. What systemd passes
// over in silence, such as a line without '=', is an error here; its line comes
// with it.
func parseEnvironment(text string) (variables []variable, line int, err error) {
	if !utf8.ValidString(text) || strings.Contains(text, "\x00") {
		return nil, 1, errors.New("the file is not UTF-8 text")
	}
	p := envParser{text: text, line: 1}
	for p.skipToKey() {
		at := p.line
		name, err := p.key()
		if err != nil {
			return nil, at, err
		}
		value, err := p.value()
		if err != nil {
			return nil, at, fmt.Errorf("%s %w", name, err)
		}
		variables = append(variables, variable{name, value})
	}
	return variables, 0, nil
}

type envParser struct {
	text string // what is left
	line int
}

// next takes one byte; 0 is the end.
func (p *envParser) next() byte {
	if p.text == "" {
		return 0
	}
	c := p.text[0]
	p.text = p.text[1:]
	if c == '\n' {
		p.line++
	}
	return c
}

// skipToKey passes over empty lines and comments.
func (p *envParser) skipToKey() bool {
	for p.text != "" {
		switch c := p.text[0]; {
		case c == '#' || c == ';':
			for c := p.next(); c != '\n' && c != 0; c = p.next() {
			}
		case strings.IndexByte(" \t\r\n", c) >= 0:
			p.next()
		default:
			return true
		}
	}
	return false
}

func (p *envParser) key() (string, error) {
	end := strings.IndexAny(p.text, "=\n")
	if end < 0 || p.text[end] == '\n' {
		line, _, _ := strings.Cut(p.text, "\n")
		return "", fmt.Errorf("%q is not KEY=VALUE", strings.TrimSpace(line))
	}
	name := strings.TrimRight(p.text[:end], " \t")
	p.text = p.text[end+1:]
	if rest, ok := strings.CutPrefix(name, "export "); ok {
		return "", fmt.Errorf("this is no shell script: write %s= without \"export\"", strings.TrimSpace(rest))
	}
	if !isVariableName(name) {
		return "", fmt.Errorf("%q is not the name of a variable, which has letters, digits and '_' only", name)
	}
	return name, nil
}

func isVariableName(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// value reads to the end of the line, or lines. Quoted parts that follow each
// other make one value.
func (p *envParser) value() (string, error) {
	var b strings.Builder
	for {
		switch c := p.next(); c {
		case 0, '\n':
			return b.String(), nil
		case ' ', '\t', '\r':
		case '\'', '"':
			if err := p.quoted(c, &b); err != nil {
				return "", err
			}
		default:
			b.WriteString(p.plain(c))
			return b.String(), nil
		}
	}
}

// plain reads a value without quotation marks, whose first byte was c. White
// space at its end does not count, unless it is escaped.
func (p *envParser) plain(c byte) string {
	var b strings.Builder
	keep := 0
	for ; c != 0 && c != '\n'; c = p.next() {
		if c == '\\' {
			if c = p.next(); c == 0 {
				break
			}
			if c == '\n' {
				continue
			}
			b.WriteByte(c)
			keep = b.Len()
			continue
		}
		b.WriteByte(c)
		if c != ' ' && c != '\t' && c != '\r' {
			keep = b.Len()
		}
	}
	return b.String()[:keep]
}

// quoted reads what stands between two quotation marks.
func (p *envParser) quoted(mark byte, b *strings.Builder) error {
	for {
		c := p.next()
		switch {
		case c == 0:
			return errQuote
		case c == mark:
			return nil
		case c == '\\' && mark == '"':
			switch c := p.next(); {
			case c == 0:
				return errQuote
			case c == '\n':
			case strings.IndexByte("\"\\`$", c) >= 0:
				b.WriteByte(c)
			default:
				b.WriteByte('\\')
				b.WriteByte(c)
			}
		default:
			b.WriteByte(c)
		}
	}
}
