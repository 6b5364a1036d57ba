package config

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

var errNotRegular = errors.New("it is not a regular file")

// readRegular reads a file that must be a regular one: reading a pipe or a device could block for ever, and with it the
// handoff that waits for the configuration.
func readRegular(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // so that opening a pipe does not block either
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	switch {
	case info.IsDir():
		err = unix.EISDIR
	case !info.Mode().IsRegular():
		err = errNotRegular
	}
	if err != nil {
		return nil, &os.PathError{Op: "read", Path: path, Err: err}
	}
	return io.ReadAll(f)
}
