package config

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// errNotText is a value that no TOML file can have in it.
var errNotText = errors.New("is not UTF-8")

// File returns the text of a configuration file that says what the flags and the
// command of s say, in whatever directory it is read; c is what Load has made of
// them. The name and the working directory are in it in any case, and the sockets
// are those of c. It must not have a Path.
func (s *Source) File(c *Config) (string, error) {
	f := fileText{source: s}
	keys := Keys()
	// In TOML, what belongs to no table comes before the first one.
	for _, key := range keys {
		if !strings.Contains(key.Name, ".") && !key.Kind.table() {
			f.key(key, c)
		}
	}
	for _, key := range keys {
		if key.Kind.table() {
			f.table(key)
		}
	}
	for _, spec := range c.Sockets {
		f.socket(spec, keys)
	}
	var tables []string
	for _, key := range keys {
		if table, _, ok := strings.Cut(key.Name, "."); ok && !key.ofSocket() && !slices.Contains(tables, table) {
			tables = append(tables, table)
		}
	}
	for _, table := range tables {
		f.section(table, keys)
	}
	return f.text.String(), f.err
}

// A fileText is a configuration file that is being written.
type fileText struct {
	source *Source
	text   strings.Builder
	err    error
}

// set writes one line. It refuses what cannot be written.
func (f *fileText) set(name, value string) {
	if !utf8.ValidString(value) {
		f.err = errors.Join(f.err, fmt.Errorf("%s %w: %q", name, errNotText, value))
	}
	fmt.Fprintf(&f.text, "%s = %s\n", name, value)
}

// key writes a key that belongs to no table, if it was given, or must be there.
func (f *fileText) key(key Key, c *Config) {
	texts := given(f.source.Flags, key.Flag())
	switch {
	case key.Name == "command":
		f.set(key.Name, tomlStrings(c.Command))
	case key.Name == "name":
		f.set(key.Name, tomlQuote(c.Name))
	case key.Name == "directory":
		f.set(key.Name, tomlQuote(c.Directory))
	case texts != nil:
		f.set(key.Name, f.value(key, texts))
	}
}

// section writes the keys of a table that were given.
func (f *fileText) section(table string, keys []Key) {
	head := false
	for _, key := range keys {
		name, ok := strings.CutPrefix(key.Name, table+".")
		texts := given(f.source.Flags, key.Flag())
		if !ok || texts == nil {
			continue
		}
		if !head {
			fmt.Fprintf(&f.text, "\n[%s]\n", table)
			head = true
		}
		f.set(name, f.value(key, texts))
	}
}

// table writes a table whose entries have names of their own.
func (f *fileText) table(key Key) {
	texts := given(f.source.Flags, key.Flag())
	if texts == nil {
		return
	}
	fmt.Fprintf(&f.text, "\n[%s]\n", key.Name)
	last := make(map[string]string)
	for _, text := range texts {
		name, value, _ := strings.Cut(text, "=")
		last[name] = value
	}
	for _, name := range sortedKeys(last) {
		f.set(tomlQuote(name), tomlQuote(last[name]))
	}
}

// socket writes a [[socket]].
func (f *fileText) socket(spec fdpass.Spec, keys []Key) {
	f.text.WriteString("\n[[socket]]\n")
	f.set("name", tomlQuote(spec.FDName()))
	f.set("listen", tomlQuote(fdpass.Spec{Network: spec.Network, Address: spec.Address}.String()))
	_, options, _ := strings.Cut(spec.String(), "?")
	for option := range strings.SplitSeq(options, "&") {
		name, value, _ := strings.Cut(option, "=")
		if name == "" || name == "name" {
			continue
		}
		value, err := url.PathUnescape(value) // which is how ParseSpec reads them
		f.err = errors.Join(f.err, err)
		if key, _ := keyNamed(keys, socketTable+"."+name); key.Kind != Number && key.Kind != Bool {
			value = tomlQuote(value)
		}
		f.set(name, value)
	}
}

// value writes what a flag was given. Load has found it right.
func (f *fileText) value(key Key, texts []string) string {
	switch key.Kind {
	case Number, Bool:
		return texts[0]
	case Path:
		return tomlQuote(f.source.Absolute(texts[0]))
	case PathList:
		paths := make([]string, len(texts))
		for i, text := range texts {
			rest, optional := strings.CutPrefix(text, "-")
			if paths[i] = f.source.Absolute(rest); optional {
				paths[i] = "-" + paths[i]
			}
		}
		return tomlStrings(paths)
	case WordList:
		return tomlStrings(texts)
	case Command:
		words, err := splitWords(texts[0])
		f.err = errors.Join(f.err, err)
		return tomlStrings(words)
	}
	return tomlQuote(texts[0])
}

func tomlStrings(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = tomlQuote(text)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// tomlQuote writes a basic string of TOML 1.0.
func tomlQuote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(text) { // by bytes: what is not ASCII stays as it is
		switch c := text[i]; {
		case c == '"', c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ', c == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
