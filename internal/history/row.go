package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// rowVersion is the version of the rows that are written, and the latest that is read.
const rowVersion = 1

// A row is a line of the history. It has one of its parts.
type row struct {
	Version int                 `json:"version"`
	Handoff *upgrade.Record     `json:"handoff,omitempty"`
	Ending  *upgrade.Ending     `json:"ending,omitempty"`
	Hook    *upgrade.HookResult `json:"hook,omitempty"`
	// Known is what the files before this one say about releases. A file begins with it, so that nothing of it is lost with the oldest.
	Known []live `json:"known,omitempty"`
}

// encode returns a row as a line.
func encode(r row) ([]byte, error) {
	r.Version = rowVersion
	b, err := json.Marshal(r)
	return append(b, '\n'), err
}

// maxLine bounds the length of a line that is read. A handoff that has left a thousand sockets unsettled has less.
const maxLine = 1 << 20

// each calls f for each row that r has, and returns how many lines are none that can be understood: cut off, damaged, or
// written by a later version.
func each(r io.Reader, f func(row)) (damaged int, err error) {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := readLine(in)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, errTooLong) {
			return damaged, err
		}
		if errors.Is(err, errTooLong) {
			damaged++
			continue
		}
		if text := bytes.TrimSpace(line); len(text) > 0 {
			var got row
			if json.Unmarshal(text, &got) != nil || got.Version < 1 || got.Version > rowVersion || !got.whole() {
				damaged++
			} else {
				f(got)
			}
		}
		if err != nil {
			return damaged, nil
		}
	}
}

// whole reports whether a row has what it must. One of a kind that is not known yet is whole: it is passed over.
func (r row) whole() bool {
	return (r.Handoff == nil || r.Handoff.Handoff > 0) && (r.Ending == nil || r.Ending.Generation > 0)
}

var errTooLong = errors.New("the line is too long")

// readLine reads a line, or what is left of one. It reads one that is too long to its end, and returns errTooLong.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for long := false; ; {
		part, err := in.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxLine; !long {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case long && (err == nil || errors.Is(err, io.EOF)):
			return nil, errTooLong
		default:
			return line, err
		}
	}
}
