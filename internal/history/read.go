package history

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// FileName is the name of the newest file in the state directory. The older ones have ".1", ".2" and so on behind it.
const FileName = "history.jsonl"

// mostFiles bounds how many files are looked for.
const mostFiles = 16

// An Entry is a handoff, with what has become of the generations that it is about.
type Entry struct {
	upgrade.Record
	// Replaced tells how the generation has ended that this handoff has replaced.
	Replaced *upgrade.Ending `json:"replaced,omitempty"`
	// Ended tells how the generation has ended that it has started, if no other handoff has replaced that one: it has
	// failed, or has ended by itself.
	Ended *upgrade.Ending `json:"ended,omitempty"`
	// Hooks are the commands that were run behind it.
	Hooks []upgrade.HookResult `json:"hooks,omitempty"`
}

// Read returns the history that lies in a state directory, the oldest handoff first, and how many lines of it could not be
// understood. Without any file the error wraps fs.ErrNotExist. It may be called while a supervisor writes.
func Read(dir string) (entries []Entry, damaged int, err error) {
	files, err := open(dir)
	if err != nil {
		return nil, 0, err
	}
	defer closeAll(files)
	for _, f := range files {
		n, err := each(f, func(r row) { entries = join(entries, r) })
		damaged += n
		if err != nil {
			return entries, damaged, fmt.Errorf("read %s: %w", f.Name(), err)
		}
	}
	return entries, damaged, nil
}

// join adds a row to what was read before it.
func join(entries []Entry, r row) []Entry {
	// Numbers may have been given twice, where rows were lost: the newest one is meant.
	find := func(is func(Entry) bool) *Entry {
		for i := range slices.Backward(entries) {
			if is(entries[i]) {
				return &entries[i]
			}
		}
		return new(Entry) // it is not there any more
	}
	switch e := r.Ending; {
	case r.Handoff != nil:
		return append(entries, Entry{Record: *r.Handoff})
	case r.Hook != nil:
		h := find(func(x Entry) bool { return x.Handoff == r.Hook.Handoff })
		h.Hooks = append(h.Hooks, *r.Hook)
	case e != nil && e.Handoff != 0:
		find(func(x Entry) bool { return x.Handoff == e.Handoff }).Replaced = e
	case e != nil:
		find(func(x Entry) bool { return x.To == e.Generation }).Ended = e
	}
	return entries
}

// open opens the files of a history, the oldest first. If they are renamed meanwhile, it begins anew.
func open(dir string) (files []*os.File, err error) {
	path := filepath.Join(dir, FileName)
	for range mostAttempts {
		if files, err = openOnce(path); err != nil || !renamed(path, files) {
			break
		}
		closeAll(files)
		files, err = nil, fmt.Errorf("%s is renamed again and again", path)
	}
	if err == nil && len(files) == 0 {
		err = &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	slices.Reverse(files)
	return files, err
}

// mostAttempts is far more than rows are written in the time of one.
const mostAttempts = 100

// openOnce opens the files, the newest first. One that is just being renamed may be met under both names, and counts once.
func openOnce(path string) (files []*os.File, err error) {
	for i := range mostFiles {
		f, err := os.Open(numbered(path, i))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			closeAll(files)
			return nil, err
		}
		if n := len(files); n > 0 && same(files[n-1], f) {
			f.Close()
			continue
		}
		files = append(files, f)
	}
	return files, nil
}

func same(a, b *os.File) bool {
	x, errX := a.Stat()
	y, errY := b.Stat()
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// renamed reports whether the newest file is another one now than the first of files, which were opened with or without it.
func renamed(path string, files []*os.File) bool {
	now, err := os.Stat(path)
	if err != nil || len(files) == 0 {
		return err == nil
	}
	was, err := files[0].Stat()
	return err != nil || !os.SameFile(now, was)
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// numbered is the path of an older file; 0 is the newest.
func numbered(path string, i int) string {
	if i == 0 {
		return path
	}
	return fmt.Sprintf("%s.%d", path, i)
}
