package config

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

// The places of values are not the decoder's but this package's.
func TestDocumentPlaces(t *testing.T) {
	t.Parallel()
	entries, problem := parseDocument([]byte(`# comment
a = 1

"b c".d = "x" # one
[e]
f = [ # two
  "g",

  2,
]
h = """
more
lines"""
i = { j = true, k = 1.5 }
[[socket]]
x = 0x1f
[[socket]]
y = 1979-05-27
`))
	if problem != nil {
		t.Fatal(problem)
	}
	want := []entry{
		{parts: []string{"a"}, item: -1, line: 2, typ: tomlNumber, texts: []string{"1"}},
		{parts: []string{"b c", "d"}, item: -1, line: 4, typ: tomlString, texts: []string{"x"}},
		{parts: []string{"e"}, item: -1, line: 5, typ: tomlTable},
		{parts: []string{"e", "f"}, item: -1, line: 6, typ: tomlList, texts: []string{"g", "2"}, wrong: tomlNumber, wrongLine: 9},
		{parts: []string{"e", "h"}, item: -1, line: 11, typ: tomlString, texts: []string{"more\nlines"}},
		{parts: []string{"e", "i"}, item: -1, line: 14, typ: tomlTable},
		{parts: []string{"e", "i", "j"}, item: -1, line: 14, typ: tomlBool, texts: []string{"true"}},
		{parts: []string{"e", "i", "k"}, item: -1, line: 14, typ: tomlFloat, texts: []string{"1.5"}},
		{parts: []string{"socket"}, item: 0, line: 15, typ: tomlTable, list: true},
		{parts: []string{"socket", "x"}, item: 0, line: 16, typ: tomlNumber, texts: []string{"31"}},
		{parts: []string{"socket"}, item: 1, line: 17, typ: tomlTable, list: true},
		{parts: []string{"socket", "y"}, item: 1, line: 18, typ: tomlTime, texts: []string{"1979-05-27"}},
	}
	for i := range max(len(entries), len(want)) {
		if i >= len(entries) || i >= len(want) || !reflect.DeepEqual(entries[i], want[i]) {
			t.Fatalf("entry %d:\ngot  %+v\nwant %+v", i, entries[min(i, len(entries)):], want[min(i, len(want)):])
		}
	}
}

// Whatever a file has in it, there is a configuration or a problem in one of its
// lines, and no panic.
func FuzzDocument(f *testing.F) {
	for _, seed := range []string{
		"", "command = ['a']", "[[socket]]\nlisten = ':1'\nbacklog = 5", "socket = [{listen='x'},{}]", "[socket]\na=1",
		"[environment]\n\"a.b\" = 'x'\n[limits]\nnofile = 1", "environment = {A = {B = 1}}", "[[ready]]\n[ready.x]", "drain.signal = 'TERM'",
		"command = [1, ['a'], {b=1}, 1.5, true]", "a = [[[]]]", "umask='0'\nreleases.current='x'", "socket = [[1]]", "[socket.x]", "x = 1\r\n",
		"[[socket]]\n[socket.listen]\nx=1", "[[socket.x]]\n[[socket]]", "socket.x = 1", "[environment.x]\n", "[[socket]]\nlisten='x'\n[[environment]]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l := loader{source: &Source{Path: "/f"}, keys: Keys(), places: make(map[string]place)}
		l.defaults()
		l.document(data)
		l.listen()
		l.checkPlaceholders("")
		lines := strings.Count(string(data), "\n") + 1
		for _, p := range l.problems {
			if p.Line > lines || p.Text == "" || strings.Contains(p.String(), "\n") {
				t.Errorf("problem %+v in %d lines", p, lines)
			}
		}
		var problems Problems
		if len(l.problems) > 0 && (!errors.As(error(l.problems), &problems) || problems.Error() == "") {
			t.Error("problems say nothing")
		}
		for _, s := range l.draft.Sockets {
			if err := s.Validate(); err != nil || s.Name == "" {
				t.Errorf("socket %+v: %v", s, err)
			}
		}
	})
}
