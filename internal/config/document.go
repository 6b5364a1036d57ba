package config

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// An entry is one value of a TOML document, or the header of a table, with its
// place. go-toml's decoder keeps no places of values that it could decode, so
// the document is walked once more with its parser.
type entry struct {
	parts []string // of the dotted key, with those of its table
	item  int      // which [[socket]], from 0; -1 outside of them
	line  int
	typ   tomlType
	texts []string // of a list its elements
	list  bool     // the key is an element of an array of tables
	// wrong is what an element of a list is that is not a string, or "".
	wrong     tomlType
	wrongLine int
}

func (e entry) name() string { return strings.Join(e.parts, ".") }

// parseDocument returns what the document says, in its order. The problem, if
// there is one, has a line and a text.
func parseDocument(data []byte) ([]entry, *Problem) {
	var all map[string]any
	if err := toml.Unmarshal(data, &all); err != nil {
		var bad *toml.DecodeError
		if !errors.As(err, &bad) {
			return nil, &Problem{Text: err.Error()}
		}
		line, _ := bad.Position()
		return nil, &Problem{Line: line, Key: strings.Join(bad.Key(), "."), Text: strings.TrimPrefix(bad.Error(), "toml: ")}
	}
	w := walker{lines: newlines(data)}
	w.parser.Reset(data)
	table, item := []string(nil), -1
	for w.parser.NextExpression() {
		switch node := w.parser.Expression(); node.Kind {
		case unstable.Table:
			var line int
			table, line = w.key(nil, node.Key())
			if table[0] != socketTable {
				item = -1
			}
			w.add(entry{parts: table, item: item, line: line, typ: tomlTable})
		case unstable.ArrayTable:
			var line int
			table, line = w.key(nil, node.Key())
			item = -1
			if len(table) == 1 && table[0] == socketTable {
				item = w.nextItem()
			}
			w.add(entry{parts: table, item: item, line: line, typ: tomlTable, list: true})
		case unstable.KeyValue:
			w.keyValue(table, item, node)
		}
	}
	if err := w.parser.Error(); err != nil { // the decoder has accepted it
		return nil, &Problem{Text: err.Error()}
	}
	return w.entries, nil
}

// A walker collects entries.
type walker struct {
	parser  unstable.Parser
	lines   []int // where the lines end
	entries []entry
	items   int
}

func (w *walker) add(e entry) { w.entries = append(w.entries, e) }

func (w *walker) nextItem() int {
	w.items++
	return w.items - 1
}

// key returns a dotted key below that of table, and its line.
func (w *walker) key(table []string, key unstable.Iterator) (parts []string, line int) {
	parts = slices.Clone(table)
	for key.Next() {
		if line == 0 {
			line = w.line(key.Node())
		}
		parts = append(parts, string(key.Node().Data))
	}
	return parts, line
}

func (w *walker) keyValue(table []string, item int, node *unstable.Node) {
	parts, line := w.key(table, node.Key())
	e := entry{parts: parts, item: item, line: line}
	v := node.Value()
	switch v.Kind {
	case unstable.InlineTable:
		e.typ = tomlTable
		w.add(e)
		w.inlineTable(parts, item, v)
		return
	case unstable.Array:
		e.typ = tomlList
		if w.inlineItems(parts, line, v) {
			return
		}
		for elements := v.Children(); elements.Next(); {
			element := elements.Node()
			if element.Kind == unstable.Comment {
				continue
			}
			t, text := scalar(element)
			if t != tomlString && e.wrong == "" {
				e.wrong, e.wrongLine = t, max(line, w.line(element)) // not every node has a place
			}
			e.texts = append(e.texts, text)
		}
	default:
		var text string
		e.typ, text = scalar(v)
		e.texts = []string{text}
	}
	w.add(e)
}

func (w *walker) inlineTable(parts []string, item int, table *unstable.Node) {
	for entries := table.Children(); entries.Next(); {
		if entries.Node().Kind == unstable.KeyValue {
			w.keyValue(parts, item, entries.Node())
		}
	}
}

// inlineItems takes a list of tables in the other notation: socket = [{...}].
func (w *walker) inlineItems(parts []string, line int, list *unstable.Node) bool {
	if len(parts) != 1 || parts[0] != socketTable {
		return false
	}
	for elements := list.Children(); elements.Next(); {
		if k := elements.Node().Kind; k != unstable.InlineTable && k != unstable.Comment {
			return false
		}
	}
	for elements := list.Children(); elements.Next(); {
		if elements.Node().Kind == unstable.Comment {
			continue
		}
		item := w.nextItem()
		w.add(entry{parts: parts, item: item, line: line, typ: tomlTable, list: true})
		w.inlineTable(parts, item, elements.Node())
	}
	return true
}

// scalar returns what a value is, and it in the notation of flags.
func scalar(node *unstable.Node) (tomlType, string) {
	text := string(node.Data)
	switch node.Kind {
	case unstable.String:
		return tomlString, text
	case unstable.Bool:
		return tomlBool, text
	case unstable.Integer:
		if n, err := strconv.ParseInt(text, 0, 64); err == nil { // Go writes 0x1f and 1_000 as TOML does
			text = strconv.FormatInt(n, 10)
		}
		return tomlNumber, text
	case unstable.Float:
		return tomlFloat, text
	case unstable.Array:
		return tomlList, ""
	case unstable.InlineTable:
		return tomlTable, ""
	default:
		return tomlTime, text
	}
}

func newlines(data []byte) []int {
	var ends []int
	for i, c := range data {
		if c == '\n' {
			ends = append(ends, i)
		}
	}
	return ends
}

// line returns the line in which a node begins, or 0 for one without a place.
func (w *walker) line(node *unstable.Node) int {
	if node.Raw.Length == 0 {
		return 0
	}
	before, _ := slices.BinarySearch(w.lines, int(node.Raw.Offset))
	return before + 1
}
