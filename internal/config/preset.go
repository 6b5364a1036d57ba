package config

import (
	"embed"
	"fmt"

	"strings"

	"github.com/zddsupervisor/zddsupervisor/internal/suggest"
)

// presetFiles are configuration files, one for each preset, named after it.
//
//go:embed presets/*.toml
var presetFiles embed.FS

// presetKey is the key that names one of them.
const presetKey = "preset"

// A Preset is a set of values for one kind of service.
type Preset struct {
	Name string
	// Doc says in one sentence for which service it is.
	Doc string
	// Text is the whole preset, as a configuration file with comments.
	Text string
}

// Presets returns all presets, by name.
func Presets() []Preset {
	files, err := presetFiles.ReadDir("presets")
	if err != nil {
		panic("the presets are part of the program: " + err.Error())
	}
	var all []Preset
	for _, file := range files {
		text, err := presetFiles.ReadFile("presets/" + file.Name())
		if err != nil {
			panic("the presets are part of the program: " + err.Error())
		}
		first, _, _ := strings.Cut(string(text), "\n")
		all = append(all, Preset{Name: strings.TrimSuffix(file.Name(), ".toml"), Doc: strings.TrimPrefix(first, "# "), Text: string(text)})
	}
	return all
}

// Values returns the configuration that the preset makes of nothing else. It has neither
// command nor sockets.
func (p Preset) Values() *Config {
	l := loader{source: new(Source), keys: Keys(), places: make(map[string]place)}
	l.defaults()
	l.usePreset(p)
	return &l.draft.Config
}

func presetNames() []string {
	var names []string
	for _, p := range Presets() {
		names = append(names, p.Name)
	}
	return names
}

// FindPreset returns the preset with this name, or an error with what the name may
// have been meant to be.
func FindPreset(name string) (Preset, error) {
	for _, p := range Presets() {
		if p.Name == name {
			return p, nil
		}
	}
	names := presetNames()
	return Preset{}, fmt.Errorf("there is no preset %q%s; there are %s", name, suggest.DidYouMean(name, names), strings.Join(names, ", "))
}

func setPreset(c *draft, v value) error {
	_, err := FindPreset(v.texts[0])
	c.Preset = v.texts[0]
	return err
}

// preset lays the values of the preset that the flags name, or else the file, over
// the defaults. They count as such: what is said elsewhere wins, and nobody is told
// that a value of a preset is of no use beside it. A name that is wrong is reported
// when it is set.
func (l *loader) preset(file []entry) {
	var name string
	for _, e := range file {
		if e.name() == presetKey && len(e.texts) == 1 {
			name = e.texts[0]
		}
	}
	if texts := given(l.source.Flags, presetKey); texts != nil {
		name = texts[0]
	}
	p, err := FindPreset(name)
	if err != nil {
		return
	}
	l.usePreset(p)
}

// usePreset takes in what a preset says.
func (l *loader) usePreset(p Preset) {
	entries, problem := parseDocument([]byte(p.Text))
	if problem != nil {
		panic("the presets are part of the program: " + problem.Text)
	}
	l.take(entries)
	l.ofPreset, l.places = l.places, make(map[string]place)
}
