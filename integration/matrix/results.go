package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// A row is a service with what came of its loads, by cellName.
type row struct {
	Service string
	Cells   map[string]cell
}

// A cell is what came of one load.
type cell struct {
	Failed, Requests int
}

// rows are in the order in which they were measured first.
type rows []row

func cellName(mode fdpass.Mode, k kind) string { return string(mode) + ", " + k.String() }

// add notes what came of a load, instead of what came of it earlier.
func (r *rows) add(service string, mode fdpass.Mode, m measured) {
	i := slices.IndexFunc(*r, func(r row) bool { return r.Service == service })
	if i < 0 {
		i = len(*r)
		*r = append(*r, row{Service: service, Cells: map[string]cell{}})
	}
	(*r)[i].Cells[cellName(mode, m.kind)] = cell{Failed: m.result.Failed(), Requests: len(m.result.Requests)}
}

// earlier returns what earlier runs have left in a file; nothing if there is none.
func earlier(file string) (r rows, err error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return r, json.Unmarshal(text, &r)
}

// save leaves all of it for later runs.
func (r rows) save(file string) error {
	if file == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
