package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A Cgroup holds the processes of one generation and of nobody else, in the
// version 2 hierarchy, see cgroups(7). It owns a descriptor of its directory.
type Cgroup struct {
	path  string // in the file system
	inner string // the same as /proc/PID/cgroup shows it
	dir   *os.File
}

// openCgroup opens the cgroup at path.
func openCgroup(path, inner string) (*Cgroup, error) {
	// Only a number for clone3(2) and never polled, so os.File does no harm.
	dir, err := os.OpenFile(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &Cgroup{path: path, inner: inner, dir: dir}, nil
}

// Path returns the cgroup's directory.
func (c *Cgroup) Path() string { return c.path }

// Name returns the name that it was made by.
func (c *Cgroup) Name() string { return filepath.Base(c.path) }

// Close gives the descriptor back. The cgroup stays.
func (c *Cgroup) Close() error {
	if err := c.dir.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// Remove closes the cgroup and removes it, with those below it that the service has
// made. It returns an error that is syscall.EBUSY while somebody is in it; zombies
// do not count. One that is not there any more is no error.
func (c *Cgroup) Remove() error {
	if err := c.Close(); err != nil {
		return err
	}
	if err := removeCgroups(c.path); err != nil {
		return fmt.Errorf("remove the cgroup %s: %w", c.path, err)
	}
	return nil
}

// removeCgroups removes a cgroup after those below it. The files in it go with it
// and cannot be removed one by one.
func removeCgroups(path string) error {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeCgroups(filepath.Join(path, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(path); err != nil && !errors.Is(err, unix.ENOENT) {
		return os.NewSyscallError("rmdir", err)
	}
	return nil
}

// Kill sends SIGKILL to everybody in the cgroup and below it, in one step that no
// fork can slip through. It does not wait. Before Linux 5.14 it returns
// fs.ErrNotExist.
func (c *Cgroup) Kill() error {
	return writeCgroup(filepath.Join(c.path, "cgroup.kill"), "1")
}

// Empty blocks until no living process is in the cgroup or below it. When ctx ends
// first, it returns its cause.
func (c *Cgroup) Empty(ctx context.Context) error {
	raw, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return os.NewSyscallError("inotify_init1", err)
	}
	events := os.NewFile(uintptr(raw), "inotify")
	defer events.Close()
	// cgroup.events is modified whenever "populated" changes in it.
	if _, err := unix.InotifyAddWatch(raw, c.eventsFile(), unix.IN_MODIFY); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		return os.NewSyscallError("inotify_add_watch", err)
	}
	stop := cancelIO(ctx, events.SetReadDeadline)
	defer stop()
	for {
		populated, err := c.populated()
		if err != nil || !populated {
			return err
		}
		var buf [unix.SizeofInotifyEvent + unix.NAME_MAX + 1]byte
		if _, err := events.Read(buf[:]); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return fmt.Errorf("the cgroup %s is not empty: %w", c.path, context.Cause(ctx))
			}
			return err
		}
	}
}

// populated says whether a living process is in the cgroup or below it.
func (c *Cgroup) populated() (bool, error) {
	b, err := os.ReadFile(c.eventsFile())
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return false, nil // removed
	}
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, "populated "); ok {
			return strings.TrimSpace(value) != "0", nil
		}
	}
	return false, fmt.Errorf("%s says nothing about \"populated\"", c.eventsFile())
}

// pids returns the processes in the cgroup and below it, zombies too.
func (c *Cgroup) pids() ([]int, error) {
	var pids []int
	err := filepath.WalkDir(c.path, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			var here []int
			here, err = readPids(filepath.Join(path, "cgroup.procs"))
			pids = append(pids, here...)
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
			return nil // removed meanwhile
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the cgroup %s: %w", c.path, err)
	}
	return pids, nil
}

func readPids(file string) ([]int, error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil // a threaded cgroup, whose processes are listed further up
	}
	if err != nil {
		return nil, err
	}
	var pids []int
	for field := range bytes.FieldsSeq(b) {
		// 0 is a process of another pid namespace, which we could not signal.
		if pid, err := strconv.Atoi(string(field)); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// contains says whether a process is in the cgroup or below it.
func (c *Cgroup) contains(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return false
	}
	at, ok := cgroupOf(b)
	return ok && (at == c.inner || strings.HasPrefix(at, c.inner+"/"))
}

// raw borrows the descriptor's number.
func (c *Cgroup) raw() int {
	raw := -1
	if conn, err := c.dir.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { raw = int(fd) })
	}
	return raw
}

func (c *Cgroup) procsFile() string  { return filepath.Join(c.path, "cgroup.procs") }
func (c *Cgroup) eventsFile() string { return filepath.Join(c.path, "cgroup.events") }

// writeCgroup writes to a file of a cgroup, which must exist.
func writeCgroup(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
