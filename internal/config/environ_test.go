package config

import (
	"errors"
	"os"
	"os/user"
	"reflect"
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	t.Parallel()
	v := Values{FDs: []string{"http", "admin-1", "ready"}, Generation: 7, Release: "v1.2"}
	for text, want := range map[string]string{
		"":                               "",
		"plain":                          "plain",
		"{fd:http}":                      "3",
		"--fd={fd:admin-1},{fd:ready}":   "--fd=4,5",
		"{generation}/{release}":         "7/v1.2",
		"{{generation}}":                 "{7}",
		"{a{generation}}":                "{a7}",
		"{}":                             "{}",
		"{generation":                    "{generation",
		"{fd:http":                       "{fd:http",
		"{Generation} {generation } {x}": "{Generation} {generation } {x}",
		`{"a":{"b":[1]},"fd":{fd:http}}`: `{"a":{"b":[1]},"fd":3}`,
		"${HOME} %{x} }{":                "${HOME} %{x} }{",
	} {
		if got, err := v.Expand([]string{text, "x"}); err != nil || !reflect.DeepEqual(got, []string{want, "x"}) {
			t.Errorf("%s: got %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"{fd:}", "{fd:x}", "{fd:HTTP}", "a {generation} {fd:http }"} {
		got, err := v.Expand([]string{"x", text})
		if got != nil || !errors.Is(err, ErrPlaceholder) || !strings.Contains(err.Error(), "http, admin-1, ready") {
			t.Errorf("%s: got %q, %v, want an error with all names", text, got, err)
		}
	}
	if _, err := (Values{}).Expand([]string{"{release}"}); !errors.Is(err, ErrPlaceholder) {
		t.Errorf("no release: %v", err)
	}
}

func FuzzExpand(f *testing.F) {
	for _, seed := range []string{"{fd:a}", "{{generation}", "{release}}", `{"a":{}}`, "{", "}", "{fd:{fd:a}}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Values{FDs: []string{"a"}, Generation: 1, Release: "r"}.Expand([]string{text})
		if (err == nil) != (got != nil) {
			t.Fatalf("%q, %v", got, err)
		}
		if err == nil && !strings.Contains(text, "{") && got[0] != text {
			t.Errorf("%q became %q", text, got[0])
		}
	})
}

// What comes out is what systemd makes of the same file, since version 254, where
// a comment ends with its line.
func TestParseEnvironment(t *testing.T) {
	t.Parallel()
	type vars = []variable
	for text, want := range map[string]vars{
		"":                              nil,
		"A=1":                           {{"A", "1"}},
		"A=1\n_b2=x y \n":               {{"A", "1"}, {"_b2", "x y"}},
		"A=1\r\nB=2\r\n":                {{"A", "1"}, {"B", "2"}},
		"# A=1\n; B=2\n\n  \t\n  C=3":   {{"C", "3"}},
		"# comment \\\nA=1":             {{"A", "1"}},
		"A=1 # no comment":              {{"A", "1 # no comment"}},
		"A=":                            {{"A", ""}},
		"A=\nB=":                        {{"A", ""}, {"B", ""}},
		"A = 1":                         {{"A", "1"}},
		"A=a=b":                         {{"A", "a=b"}},
		`A="x  y " `:                    {{"A", "x  y "}},
		`A='$x \ "'`:                    {{"A", `$x \ "`}},
		`A="a\"b\\c\$d\` + "`" + `e\n"`: {{"A", `a"b\c$d` + "`" + `e\n`}},
		`A="a"'b' "c"d`:                 {{"A", "abcd"}},
		`A=a"b"`:                        {{"A", `a"b"`}},
		"A=a\\\nb":                      {{"A", "ab"}},
		"A=\"a\\\nb\nc\"\nB=1":          {{"A", "ab\nc"}, {"B", "1"}},
		"A='a\nb'":                      {{"A", "a\nb"}},
		`A=a\ b\ `:                      {{"A", "a b "}},
		"A=1\nA=2":                      {{"A", "1"}, {"A", "2"}},
		"A=é":                           {{"A", "é"}},
	} {
		got, _, err := parseEnvironment(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	}
	for text, line := range map[string]int{
		"A":                         1,
		"A=1\n\nB\nC=1":             3,
		"=1":                        1,
		"A=1\n1A=2":                 2,
		"A B=1":                     1,
		"export A=1":                1,
		"# x\n# y\nA-B=1":           3,
		"A=1\nB='a\nb\nc":           2,
		"A=\"x\nB=\\":               1,
		"A='1\n2'\nB=\"\n\n\"\nbad": 6,
		"A=\x00":                    1,
		"A=\xff":                    1,
	} {
		if got, gotLine, err := parseEnvironment(text); err == nil || gotLine != line {
			t.Errorf("%q: got %q, line %d, %v, want an error in line %d", text, got, gotLine, err, line)
		}
	}
}

func FuzzParseEnvironment(f *testing.F) {
	for _, seed := range []string{"A=1\n# x\nB=\"a\\\"b\"", "A='x\ny'", "A=a\\\nb", "=", "A", ";\n\\", "A=\"\\", "A= 'b'c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		variables, line, err := parseEnvironment(text)
		lines := strings.Count(text, "\n") + 1
		if err != nil && (line < 1 || line > lines || variables != nil) {
			t.Fatalf("%v in line %d of %d, with %v", err, line, lines, variables)
		}
		for _, v := range variables {
			if !isVariableName(v.name) || strings.Contains(v.value, "\x00") {
				t.Errorf("variable %q", v)
			}
		}
	})
}

func TestEnviron(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one := write(t, dir, "one", "B=one\nC=one\nD='{release}'\n")
	two := write(t, dir, "two", "C=two\n")
	c := Config{
		EnvironmentFiles: []string{one, "-" + two, "-" + dir + "/none"},
		Environment:      map[string]string{"E": "{fd:http}", "A": "mine", "J": `{"x":1}`},
	}
	values := Values{FDs: []string{"http"}, Generation: 2, Release: "v2"}
	got, err := c.Environ([]string{"PATH=/bin", "A=base", "B=base", "A=again", "X={release}"}, values)
	want := []string{"PATH=/bin", "A=mine", "B=one", "X={release}", "C=two", "D=v2", "E=3", `J={"x":1}`}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}

	// Files are read anew, and a mistake that came meanwhile is told with its place.
	write(t, dir, "two", "C=changed\n")
	if got, err = c.Environ(nil, values); err != nil || got[1] != "C=changed" {
		t.Errorf("got %q, %v", got, err)
	}
	write(t, dir, "two", "C=1\noops\n")
	if _, err = c.Environ(nil, values); err == nil || err.Error() != two+`:2: "oops" is not KEY=VALUE` {
		t.Errorf("got %v", err)
	}
	if err := os.Remove(one); err != nil {
		t.Fatal(err)
	}
	if _, err = c.Environ(nil, values); err == nil || err.Error() != one+" cannot be read: no such file or directory" {
		t.Errorf("got %v", err)
	}
	for _, c := range []Config{{Environment: map[string]string{"A": "{fd:x}"}}, {EnvironmentFiles: []string{write(t, dir, "three", "A={fd:x}")}}} {
		if _, err := c.Environ(nil, values); !errors.Is(err, ErrPlaceholder) {
			t.Errorf("got %v, want ErrPlaceholder", err)
		}
	}
}

// A service that runs as somebody else must not find the supervisor's home.
func TestEnvironOfUser(t *testing.T) {
	t.Parallel()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	base := []string{"HOME=/nowhere", "USER=nobody-at-all", "LANG=C"}
	want := []string{"HOME=" + me.HomeDir, "USER=" + me.Username, "LANG=C", "LOGNAME=" + me.Username}
	for _, name := range []string{me.Username, me.Uid} {
		c := Config{User: name}
		if got, err := c.Environ(base, Values{}); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("user %s: %q, %v, want %q", name, got, err, want)
		}
	}
	configured := Config{User: me.Username, Environment: map[string]string{"HOME": "/mine"}}
	if got, err := configured.Environ(base, Values{}); err != nil || got[0] != "HOME=/mine" {
		t.Errorf("configured: %q, %v", got, err)
	}
	for _, name := range []string{"", "4294967294"} { // nobody, and a number that stands for nobody
		c := Config{User: name}
		if got, err := c.Environ(base, Values{}); err != nil || !reflect.DeepEqual(got, base) {
			t.Errorf("user %q: %q, %v, want %q", name, got, err, base)
		}
	}
}
