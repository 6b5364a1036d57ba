package upgrade

import (
	"reflect"
	"testing"
	"time"
)

// A supervisor that takes over after the clock was set knows all the same how long everything has lasted.
func TestClockWasSet(t *testing.T) {
	t.Parallel()
	const lived = 3 * time.Second
	was := newClock()
	g := &generation{number: 1, lived: time.Now().Add(-lived)}
	written := encode(t, savedGeneration{Number: 1, Lived: was.moment(g.lived)})
	var read savedGeneration
	decode(t, written, &read)
	for _, jump := range []time.Duration{-time.Hour, time.Hour} {
		now := newClock() // of another process, after the jump: its times of day are all by that much off
		now.wall = now.wall.Add(jump)
		if got := now.wall.Sub(now.time(read.Lived)); got < lived || got > lived+10*time.Second {
			t.Errorf("after a jump of %s it has lived for %s", jump, got)
		}
	}
	if got := time.Since(newClock().time(read.Lived)); got < lived || got > lived+10*time.Second {
		t.Errorf("it has lived for %s", got)
	}
	if first := was.moment(g.lived); first != was.moment(g.lived) || was.moment(time.Time{}) != 0 || !was.time(0).IsZero() {
		t.Error("a moment is not the same twice, or none is one")
	}
}

// In what is written down for the next supervisor, times of day are in records alone, which are for people.
func TestNoTimeOfDayIsSaved(t *testing.T) {
	t.Parallel()
	var found []string
	seen := make(map[reflect.Type]bool)
	var walk func(path string, typ reflect.Type)
	walk = func(path string, typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map {
			typ = typ.Elem()
		}
		if typ == reflect.TypeFor[time.Time]() {
			found = append(found, path)
		}
		if typ.Kind() != reflect.Struct || typ == reflect.TypeFor[Record]() || seen[typ] {
			return
		}
		seen[typ] = true
		for i := range typ.NumField() {
			walk(path+"."+typ.Field(i).Name, typ.Field(i).Type)
		}
	}
	walk("Saved", reflect.TypeFor[Saved]())
	if len(found) > 0 {
		t.Errorf("times of day: %v", found)
	}
}
