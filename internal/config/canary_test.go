package config

import (
	"reflect"
	"testing"
	"time"
)

func TestCanary(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]CanaryStep{
		"5%":                         {{0.05, 0}},
		"0.5%:90s":                   {{0.005, 90 * time.Second}},
		"5%:30s, 25%:1m":             {{0.05, 30 * time.Second}, {0.25, time.Minute}},
		"  1 %:1s,2%  ,\t99.9% : 1h": nil, // a space within the share
		"1%:1s,2%,\t99.5% : 1h":      {{0.01, time.Second}, {0.02, 0}, {0.995, time.Hour}},
	} {
		var c draft
		err := setCanary(&c, value{texts: []string{text}})
		if !reflect.DeepEqual(c.Handoff.Canary, want) || (err == nil) != (want != nil) {
			t.Errorf("%q: got %v, %v, want %v", text, c.Handoff.Canary, err, want)
		}
	}
}

// The steps without a time get the one that is for all of them, and the file may
// have it left over where the canary came from a flag.
func TestCanaryTime(t *testing.T) {
	t.Parallel()
	file := write(t, t.TempDir(), "app.toml", `
command = ["app"]
socket = [{ listen = ":1" }]
handoff = { canary = "5%, 10%:1s, 20%", canary-time = "7s" }
`)
	want := []CanaryStep{{0.05, 7 * time.Second}, {0.1, time.Second}, {0.2, 7 * time.Second}}
	if got := load(t, source(t, file)).Handoff.Canary; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	want = []CanaryStep{{0.5, time.Second}}
	if got := load(t, source(t, file, "--handoff-canary=50%:1s")).Handoff.Canary; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v from the flag, want %v", got, want)
	}
}

func FuzzCanary(f *testing.F) {
	for _, text := range []string{"5%", "5%:30s, 25%:30s", "nan%:1s", "5e-324%,99.9999999999999999%"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var c draft
		err := setCanary(&c, value{texts: []string{text}})
		if (err == nil) != (len(c.Handoff.Canary) > 0) {
			t.Fatalf("%q: %v, %v", text, c.Handoff.Canary, err)
		}
		last := 0.0
		for _, step := range c.Handoff.Canary {
			if !(step.Share > last && step.Share < 1) || step.Time < 0 {
				t.Errorf("%q: %v", text, c.Handoff.Canary)
			}
			last = step.Share
		}
	})
}
