package systemd

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// unitText writes a unit file, whose syntax is in systemd.syntax(7). err is what
// could not be written.
type unitText struct {
	strings.Builder
	err error
}

func (t *unitText) section(name string) {
	if t.Len() > 0 {
		t.WriteByte('\n')
	}
	fmt.Fprintf(t, "[%s]\n", name)
}

func (t *unitText) comment(text string) {
	fmt.Fprintf(t, "# %s\n", text)
}

// set writes one line. value has been made by plain or commandLine, or needs
// neither.
func (t *unitText) set(key, value string) {
	line := key + "=" + value
	switch {
	case len(line) > maxLine:
		t.fail("the line of %s= would be longer than %d bytes", key, maxLine)
	case !utf8.ValidString(line):
		t.fail("%s= would not be UTF-8, and be ignored", key)
	case strings.ContainsFunc(line, unicode.IsControl):
		t.fail("%s= would have a control character in it", key)
	case strings.HasSuffix(line, `\`):
		t.fail(`%s= would end in "\", which continues a line`, key)
	}
	fmt.Fprintf(t, "%s\n", line)
}

func (t *unitText) fail(format string, args ...any) {
	t.err = errors.Join(t.err, fmt.Errorf(format+": %w", append(args, ErrUnit)...))
}

// plain returns text for a setting that takes it as it is, but for specifiers.
func plain(text string) string {
	return strings.ReplaceAll(text, "%", "%%")
}

// commandLine returns args for ExecStart= and its like, see COMMAND LINES in
// systemd.service(5): what systemd makes of it is args again.
func commandLine(args []string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = word(arg)
	}
	return strings.Join(words, " ")
}

// word returns one argument of a command line. Only those that need it are
// quoted, since people read and edit unit files.
func word(arg string) string {
	arg = strings.NewReplacer("%", "%%", "$", "$$").Replace(arg)
	safe := func(r rune) bool {
		return isAlphanumeric(r) || strings.ContainsRune("%$-_./,:=@+~^?&!*()[]{}<>|#", r) || r > unicode.MaxASCII && unicode.IsPrint(r)
	}
	if arg != "" && !strings.ContainsFunc(arg, func(r rune) bool { return !safe(r) }) {
		return arg
	}
	var quoted strings.Builder
	quoted.WriteByte('"')
	for i := 0; i < len(arg); i++ { // by bytes: what is not ASCII stays as it is
		switch c := arg[i]; {
		case c == '"', c == '\\':
			quoted.WriteByte('\\')
			quoted.WriteByte(c)
		case c == 0:
			quoted.WriteByte(c) // refused by set: no argument can have one
		case c < ' ', c == 0x7f:
			fmt.Fprintf(&quoted, `\x%02x`, c)
		default:
			quoted.WriteByte(c)
		}
	}
	quoted.WriteByte('"')
	return quoted.String()
}
