package main

import (
	"os"
	"path/filepath"
	"time"
)

// while is how long something goes on: for a time, or, if it names a file, until that is there.
type while struct {
	time time.Duration
	file string
}

func (w *while) String() string {
	if w.file != "" {
		return w.file
	}
	return w.time.String()
}

// Set is for package flag.
func (w *while) Set(text string) (err error) {
	*w = while{}
	if filepath.IsAbs(text) {
		w.file = text
		return nil
	}
	w.time, err = time.ParseDuration(text)
	return err
}

// wait blocks until it is over.
func (w while) wait() {
	time.Sleep(w.time)
	for w.file != "" {
		if _, err := os.Stat(w.file); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}
