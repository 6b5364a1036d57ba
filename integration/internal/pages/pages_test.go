package pages

import (
	"reflect"
	"strings"
	"testing"
)

func TestSteps(t *testing.T) {
	page := `# A page

<!-- run: none, it takes a network -->
~sh
apt install it
~

Text.

<!-- file: /etc/it.toml -->
~toml
name = "it"
~

~sh
one
two
~
<!-- prints: something -->

~
output
~

<!-- fails: 1 -->
~sh
three
~

It fails.

<!-- prints: a: b -->
<!-- prints: c -->
<!-- A remark. -->
`
	got, err := Steps(strings.ReplaceAll(page, "~", "```"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Step{
		{Line: 12, File: "/etc/it.toml", Text: "name = \"it\"\n"},
		{Line: 16, Text: "one\ntwo\n", Prints: []string{"something"}},
		{Line: 27, Text: "three\n", Status: 1, Prints: []string{"a: b", "c"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestBadPages(t *testing.T) {
	for _, page := range []string{
		"~sh\nopen\n",
		"<!-- run: never -->\n~sh\n~\n",
		"<!-- run: none, -->\n~sh\n~\n",
		"<!-- fails: 0 -->\n~sh\n~\n",
		"<!-- fails: no -->\n~sh\n~\n",
		"<!-- fails: 1 -->\n~\n~\n",
		"<!-- prints: too early -->\n~sh\n~\n",
	} {
		if steps, err := Steps(strings.ReplaceAll(page, "~", "```")); err == nil {
			t.Errorf("%q gives %+v", page, steps)
		}
	}
}
