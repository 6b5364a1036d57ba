package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrNotBuilt means that the cache does not have the root file system.
var ErrNotBuilt = errors.New("root file system was not built")

// Root is a root file system that is held for use.
type Root struct {
	Dir  string
	lock *os.File
}

// Use holds the recipe's root file system in cache; the caller closes it. It does not build one: [ErrNotBuilt].
func (r Recipe) Use(cache string) (*Root, error) {
	dir := filepath.Join(cache, r.name())
	lock, err := flock(dir+".lock", unix.LOCK_SH)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s in %s: %w", r.Suite, cache, ErrNotBuilt)
	}
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(dir); err != nil {
		lock.Close()
		return nil, fmt.Errorf("%s in %s: %w", r.Suite, cache, ErrNotBuilt)
	}
	return &Root{Dir: dir, lock: lock}, nil
}

// Close lets the root file system go.
func (r *Root) Close() error { return r.lock.Close() }

// flock opens the file, with mode flags besides, and locks it; the lock goes with the file. It blocks until the lock is free, unless how has
// LOCK_NB: then the error is EWOULDBLOCK.
func flock(path string, how int, flags ...int) (*os.File, error) {
	mode := os.O_RDWR
	for _, f := range flags {
		mode |= f
	}
	f, err := os.OpenFile(path, mode, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), how)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, os.NewSyscallError("flock", err))
	}
	return f, nil
}
