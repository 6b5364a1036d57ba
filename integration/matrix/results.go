package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// A row is a service with what came of its loads, by cellName.
type row struct {
	Service string
	Cells   map[string]cell
}

// A cell is what came of one load.
type cell struct {
	Failed, Requests, Handoffs int
}

// rows are in the order in which they were measured first.
type rows []row

func cellName(w way, k kind) string { return w.name + ", " + k.String() }

// have reports whether a service was measured in this way.
func (r rows) have(service string, w way) bool {
	for _, row := range r {
		for name := range row.Cells {
			if row.Service == service && strings.HasPrefix(name, w.name+", ") {
				return true
			}
		}
	}
	return false
}

// add notes what came of a load.
func (r *rows) add(service string, w way, handoffs int, m measured) {
	i := slices.IndexFunc(*r, func(r row) bool { return r.Service == service })
	if i < 0 {
		i = len(*r)
		*r = append(*r, row{Service: service, Cells: map[string]cell{}})
	}
	(*r)[i].Cells[cellName(w, m.kind)] = cell{Failed: m.result.Failed(), Requests: len(m.result.Requests), Handoffs: handoffs}
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
