package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/internal/suggest"
)

// A draft is a configuration that is being put together.
type draft struct {
	Config
	mode       fdpass.Mode   // of the sockets that do not say so themselves
	canaryTime time.Duration // of the steps that do not say so themselves
}

// A place is where a value comes from. The zero place is that of defaults.
type place struct {
	line int    // in the configuration file
	flag string // as "--name"
}

// A loader puts a configuration together: the defaults first, then the file,
// then the flags.
type loader struct {
	source *Source
	keys   []Key
	draft  draft
	// places has the place of each key that was given, and of each entry of a
	// table as "environment.HOME".
	places   map[string]place
	sockets  []socketText
	problems Problems
	read     bool   // the file could be read and parsed
	whole    bool   // the sockets of draft are all that were asked for
	refused  string // a table below which nothing is looked at
	// ofPreset are the keys that the preset has set.
	ofPreset map[string]place
}

// report adds a problem with the value of key that stands at that place.
func (l *loader) report(at place, key, format string, args ...any) {
	l.problems = append(l.problems, l.problem(at, key, fmt.Sprintf(format, args...)))
}

func (l *loader) problem(at place, key, text string) Problem {
	p := Problem{Line: at.line, Flag: at.flag, Key: key, Text: text}
	if at.flag == "" {
		p.File = l.source.Path
	}
	return p
}

// reportKey adds a problem with the value of key, wherever that came from.
func (l *loader) reportKey(key, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	at, given := l.places[key]
	if _, preset := l.ofPreset[key]; preset && !given {
		at = l.places[presetKey]
		text = fmt.Sprintf("%q sets %s, which %s; or set %[2]s to something else", l.draft.Preset, key, text)
	}
	l.report(at, key, "%s", text)
}

// set gives a key its value. name is the key's, or that of an entry of a table.
func (l *loader) set(key Key, name string, v value, at place) {
	l.places[name] = at
	for _, text := range v.texts {
		if strings.Contains(text, "\x00") {
			l.report(at, name, "must not have a NUL character in it")
			return
		}
	}
	if err := key.set(&l.draft, v); err != nil {
		l.report(at, name, "%v", err)
	}
}

func (l *loader) defaults() {
	for _, key := range l.keys {
		if key.Default != "" {
			l.set(key, key.Name, value{texts: []string{key.Default}}, place{})
		}
	}
	l.places = make(map[string]place)
}

func (l *loader) file() {
	data, err := l.source.readFile()
	if err != nil {
		l.report(place{}, "", "cannot be read: %v", cause(err))
		return
	}
	l.document(data)
}

// document takes in the contents of the file, and the preset that it names.
func (l *loader) document(data []byte) {
	entries, problem := parseDocument(data)
	if problem != nil {
		problem.File = l.source.Path
		l.problems = append(l.problems, *problem)
		return
	}
	l.read = true
	l.preset(entries)
	l.take(entries)
}

// take takes in what the file or a preset says.
func (l *loader) take(entries []entry) {
	for _, e := range entries {
		switch {
		case l.refused != "" && strings.HasPrefix(e.name(), l.refused+"."):
		case e.parts[0] == socketTable:
			l.socketEntry(e)
		default:
			l.entry(e)
		}
	}
}

// entry takes in one entry of the file, outside of the sockets.
func (l *loader) entry(e entry) {
	at, name := place{line: e.line}, e.name()
	key, known := keyNamed(l.keys, name)
	if known {
		l.places[name] = at // even if there is something wrong with it
	}
	if !known && len(e.parts) == 2 { // in a table whose entries have names of their own
		table, ok := keyNamed(l.keys, e.parts[0])
		if ok && table.Kind.table() {
			if !table.Kind.accepts(e.typ) {
				l.report(at, name, "is %s, but must be %s", e.typ, table.Kind.entryForm())
				return
			}
			l.set(table, name, value{texts: []string{e.parts[1] + "=" + e.texts[0]}}, at)
			return
		}
	}
	switch {
	case e.typ == tomlTable && slices.Contains(l.tables(), name):
		if e.list {
			l.report(at, name, "there is one such table only: write [%s]", name)
		}
	case !known && e.typ == tomlTable:
		l.refused = name
		l.report(at, "", "unknown table [%s]%s", name, suggest.DidYouMean(name, l.tables()))
	case !known && slices.Contains(l.tables(), name):
		l.report(at, name, "is %s, but must be a table: write [%s] before its keys", e.typ, name)
	case !known:
		l.report(at, "", "unknown key %q%s", name, suggest.DidYouMean(name, l.names()))
	case key.Kind.table() || !key.Kind.accepts(e.typ):
		l.report(at, name, "is %s, but must be %s", e.typ, key.Kind.form())
	case e.wrong != "":
		l.report(place{line: e.wrongLine}, name, "has %s in it, but must be %s; write it in quotes", e.wrong, key.Kind.form())
	default:
		l.set(key, name, value{texts: e.texts, dir: l.source.fileDirectory()}, at)
	}
}

// tables returns the names of all tables.
func (l *loader) tables() []string {
	var names []string
	for _, key := range l.keys {
		table, _, ok := strings.Cut(key.Name, ".")
		if (ok || key.Kind.table()) && !slices.Contains(names, table) {
			names = append(names, table)
		}
	}
	return names
}

// names returns the names of all keys, and of the tables, which one may have
// meant as well.
func (l *loader) names() []string {
	names := make([]string, len(l.keys))
	for i, key := range l.keys {
		names[i] = key.Name
	}
	return append(names, l.tables()...)
}

// flags lays the flags over the file.
func (l *loader) flags() {
	for _, key := range l.keys {
		if key.Flag() == "" || key.ofSocket() {
			continue
		}
		texts := given(l.source.Flags, key.Flag())
		if texts == nil {
			continue
		}
		at := place{flag: "--" + key.Flag()}
		if key.Kind == Command {
			var err error
			if texts, err = splitWords(texts[0]); err != nil {
				l.report(at, key.Name, "%v", err)
				continue
			}
		}
		l.set(key, key.Name, value{texts: texts, dir: l.source.WorkingDirectory}, at)
		if key.Kind.table() {
			for _, text := range texts {
				name, _, _ := strings.Cut(text, "=")
				l.places[key.Name+"."+name] = at
			}
		}
	}
	if len(l.source.Args) > 0 {
		key, _ := keyNamed(l.keys, "command")
		l.set(key, key.Name, value{texts: l.source.Args}, place{flag: "the command"})
	}
}
