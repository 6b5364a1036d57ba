package config

import (
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// Every key can be set in the file and by a flag, and is explained.
func TestEveryKey(t *testing.T) {
	t.Parallel()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(flags)
	seen := make(map[string]bool)
	usedFlags := make(map[string]bool)
	for _, key := range Keys() {
		if seen[key.Name] {
			t.Errorf("%s is there twice", key.Name)
		}
		seen[key.Name] = true
		if !regexp.MustCompile(`^([a-z]+\.)?[a-z0-9]+(-[a-z]+)*$`).MatchString(key.Name) {
			t.Errorf("%s does not look like a key", key.Name)
		}
		if !strings.HasSuffix(key.Doc, ".") || len(firstSentence(key.Doc)) > 160 {
			t.Errorf("%s is not explained in sentences: %q", key.Name, key.Doc)
		}
		if (key.set == nil) != key.ofSocket() {
			t.Errorf("%s cannot be set, or is set twice", key.Name)
		}
		if key.Name == "command" {
			continue
		}
		usedFlags[key.Flag()] = true
		flag := flags.Lookup(key.Flag())
		if flag == nil {
			t.Errorf("%s has no flag", key.Name)
			continue
		}
		if !key.ofSocket() && flag.DefValue != key.Default {
			t.Errorf("--%s shows the default %q, but that is %q", flag.Name, flag.DefValue, key.Default)
		}
		if _, ok := flag.Value.(pflag.SliceValue); ok != (key.Kind.repeats() || key.ofSocket()) {
			t.Errorf("--%s: may be repeated: %v", flag.Name, ok)
		}
	}
	flags.VisitAll(func(flag *pflag.Flag) {
		if !usedFlags[flag.Name] {
			t.Errorf("--%s has no key", flag.Name)
		}
	})
}

// Every field of Config has a key; a new one must not be forgotten in the table.
func TestEveryField(t *testing.T) {
	t.Parallel()
	fieldOf := map[string]string{ // where the name of the key does not say it
		"environment-file": "EnvironmentFiles", "socket": "Sockets", "mode": "Sockets", "upgrade": "UpgradeTimeout",
	}
	have := map[string]bool{"places": true} // not configured itself
	for _, key := range Keys() {
		table, rest, inTable := strings.Cut(key.Name, ".")
		field, ok := fieldOf[table]
		if !ok {
			field = table
			if inTable && table != socketTable {
				field += "." + rest
			}
		}
		have[strings.ToLower(strings.ReplaceAll(field, "-", ""))] = true
	}
	var check func(prefix string, typ reflect.Type)
	check = func(prefix string, typ reflect.Type) {
		for i := range typ.NumField() {
			field := typ.Field(i)
			if field.Type.Kind() == reflect.Struct {
				check(strings.ToLower(field.Name)+".", field.Type)
			} else if name := prefix + strings.ToLower(field.Name); !have[name] {
				t.Errorf("no key sets %s", name)
			}
		}
	}
	check("", reflect.TypeOf(Config{}))
}

// The keys of a socket, but for listen, are the options of a spec: its fields,
// but for Network and Address.
func TestSocketKeysAreOptions(t *testing.T) {
	t.Parallel()
	if got, want := len(socketKeys())-1, reflect.TypeOf(fdpass.Spec{}).NumField()-2; got != want {
		t.Errorf("%d options have keys, and specs have %d", got, want)
	}
	for _, key := range socketKeys() {
		option := strings.TrimPrefix(key.Name, "socket.")
		if option == "listen" {
			continue
		}
		values := map[Kind]string{Text: "x", Octal: "0600", Number: "1", Bool: "true", Duration: "1s"}
		switch option {
		case "mode":
			values[Text] = "shared"
		case "pass":
			values[Text] = string(fdpass.PassFD)
		case "ports":
			continue // it needs another value of pass
		case "protocol":
			values[Text] = fdpass.HTTP1
		}
		// An option that does not go with the one address goes with the other.
		var errs []error
		for _, address := range []string{"tcp6://:1", "unix:///x"} {
			_, err := fdpass.ParseSpec(address + "?" + option + "=" + values[key.Kind])
			if err == nil {
				errs = nil
				break
			}
			errs = append(errs, err)
		}
		if errs != nil {
			t.Error(errors.Join(errs...))
		}
	}
}

func TestFlagUsage(t *testing.T) {
	t.Parallel()
	flags, _ := parseFlags(t)
	usage := flags.FlagUsages()
	for _, want := range []string{
		"--listen [NAME=]SPEC[?OPTION=VALUE&...]", "--environment KEY=VALUE", "(default 90s)", "(default SIGTERM)", "--fail-fast  ",
	} {
		if !strings.Contains(usage, want) {
			t.Errorf("the usage does not have %q:\n%s", want, usage)
		}
	}
}

// Whoever writes a command line anew has to find in the flags what was given.
func TestFlagValues(t *testing.T) {
	t.Parallel()
	flags, rest := parseFlags(t, "--listen", "a=:1,:2", "--listen", "b=:3", "--name", "one", "--name", "two", "--fail-fast", "--", "app", "--name", "x")
	listen := flags.Lookup("listen").Value.(pflag.SliceValue)
	if got, want := listen.GetSlice(), []string{"a=:1,:2", "b=:3"}; !reflect.DeepEqual(got, want) {
		t.Errorf("listen is %q, want %q", got, want)
	}
	if got := flags.Lookup("name").Value.String(); got != "two" {
		t.Errorf("name is %q", got)
	}
	if got := flags.Lookup("fail-fast").Value.String(); got != "true" {
		t.Errorf("fail-fast is %q", got)
	}
	if want := []string{"app", "--name", "x"}; !reflect.DeepEqual(rest, want) {
		t.Errorf("rest is %q, want %q", rest, want)
	}
	if err := listen.Replace([]string{"c"}); err != nil || flags.Lookup("listen").Value.String() != "c" {
		t.Errorf("replaced: %v, %v", flags.Lookup("listen").Value, err)
	}
}

func TestSplitWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                   nil,
		"  \t\n":             nil,
		"nginx -t":           {"nginx", "-t"},
		"  a   b  ":          {"a", "b"},
		`a 'b c' "d e" f\ g`: {"a", "b c", "d e", "f g"},
		`a'b'"c"d`:           {"abcd"},
		`'' ""`:              {"", ""},
		`'a\b' "a\"b" \\`:    {`a\b`, `a"b`, `\`},
		`"it's" 'a "b"'`:     {"it's", `a "b"`},
		"é ü":                {"é", "ü"},
	} {
		if got, err := splitWords(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{`'`, `a "b`, `a\`, `"a\"`} {
		if got, err := splitWords(text); err == nil {
			t.Errorf("%q: got %q, want an error", text, got)
		}
	}
}

func FuzzSplitWords(f *testing.F) {
	f.Add("a", "b c")
	f.Add("", "'")
	f.Add(`\`, "\"\n")
	f.Fuzz(func(t *testing.T, a, b string) {
		quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
		a, b = strings.ToValidUTF8(a, ""), strings.ToValidUTF8(b, "")
		got, err := splitWords(quote(a) + " " + quote(b))
		if err != nil || !reflect.DeepEqual(got, []string{a, b}) {
			t.Errorf("%q and %q became %q, %v", a, b, got, err)
		}
		splitWords(a + b) // whatever it is
	})
}
