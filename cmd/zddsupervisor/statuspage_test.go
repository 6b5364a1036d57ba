package main

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// The page has every field of the status and of the events, with its type, and nothing else.
func TestStatusPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/status.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[string]string) // "Status.name" to its type
	section := ""
	row := regexp.MustCompile("^\\| `([a-z_]+)` \\| ([^|]+) \\| [^|]+ \\|$")
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if name, ok := strings.CutPrefix(line, "## "); ok {
			section = name
		} else if m := row.FindStringSubmatch(line); m != nil {
			documented[section+"."+m[1]] = m[2]
		}
	}
	defined := make(map[string]string)
	addFields(t, defined, "Status", reflect.TypeFor[control.Status]())
	addFields(t, defined, "Event", reflect.TypeFor[control.Event]())
	for _, name := range slices.Sorted(maps.Keys(defined)) {
		if documented[name] != defined[name] {
			t.Errorf("%s is a %q, and docs/status.md has %q", name, defined[name], documented[name])
		}
		delete(documented, name)
	}
	for name := range documented {
		t.Errorf("docs/status.md has %s, which there is not", name)
	}
}

// addFields adds the fields of a struct, and of those in it, as they are in JSON.
func addFields(t *testing.T, all map[string]string, section string, of reflect.Type) {
	t.Helper()
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			addFields(t, all, section, inner)
			continue
		}
		if name == "" {
			t.Errorf("%s.%s has no name in JSON", section, f.Name)
		}
		all[section+"."+name] = typeName(t, all, f.Type)
	}
}

// typeName is what the page calls a type. The fields of a struct are added to all.
func typeName(t *testing.T, all map[string]string, of reflect.Type) string {
	t.Helper()
	switch of.Kind() {
	case reflect.Pointer:
		return typeName(t, all, of.Elem())
	case reflect.Slice:
		return "list of " + typeName(t, all, of.Elem())
	case reflect.Map:
		return "object of " + typeName(t, all, of.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "string"
	case reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64:
		return "number"
	case reflect.Struct:
		if of == reflect.TypeFor[time.Time]() {
			return "time"
		}
		name := of.Name()
		switch of {
		case reflect.TypeFor[upgrade.Carried]():
			name = "Carried"
		case reflect.TypeFor[upgrade.OpenSocket]():
			name = "Unsettled"
		}
		if short := strings.TrimSuffix(name, "Status"); short != "" {
			name = short
		}
		addFields(t, all, name, of)
		return name
	}
	panic(fmt.Sprint("no word for ", of))
}
