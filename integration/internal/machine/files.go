package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	filepaths "path"

	"golang.org/x/sys/unix"
)

// open opens a path inside. Links are followed as they are inside, not into the host.
func (m *Machine) open(path string, flags int) (int, error) {
	fd, err := unix.Openat2(m.root, path, &unix.OpenHow{
		Flags:   uint64(flags | unix.O_CLOEXEC),
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// ReadFile reads a file inside.
func (m *Machine) ReadFile(path string) ([]byte, error) {
	fd, err := m.open(path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	return io.ReadAll(f)
}

// WriteFile writes a file inside, with the missing directories above it. It replaces a file that is there as a whole, by rename.
func (m *Machine) WriteFile(ctx context.Context, path string, content []byte, mode fs.FileMode) error {
	return m.write(ctx, path, mode, func(f *os.File) error {
		_, err := f.Write(content)
		return err
	})
}

// CopyFile copies a file of the host into the machine as [Machine.WriteFile] does.
func (m *Machine) CopyFile(ctx context.Context, host, path string, mode fs.FileMode) error {
	from, err := os.Open(host)
	if err != nil {
		return err
	}
	defer from.Close()
	return m.write(ctx, path, mode, func(f *os.File) error {
		_, err := io.Copy(f, from)
		return err
	})
}

func (m *Machine) write(ctx context.Context, path string, mode fs.FileMode, fill func(*os.File) error) error {
	dir, name := filepaths.Split(path)
	parent, err := m.open(dir, unix.O_PATH|unix.O_DIRECTORY)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := m.Output(ctx, "mkdir", "-p", dir); err != nil {
			return err
		}
		parent, err = m.open(dir, unix.O_PATH|unix.O_DIRECTORY)
	}
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	unfinished := "." + name + ".unfinished"
	fd, err := unix.Openat(parent, unfinished, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return &fs.PathError{Op: "create", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	err = errors.Join(fill(f), f.Chmod(mode), f.Close())
	if err != nil {
		return err
	}
	if err := unix.Renameat(parent, unfinished, parent, name); err != nil {
		return &fs.PathError{Op: "rename", Path: path, Err: err}
	}
	return nil
}

// HostPath is the host's name of a path inside, for connecting to a unix socket there. It is at most 30 bytes longer than the path.
func (m *Machine) HostPath(path string) string {
	return fmt.Sprintf("/proc/%d/root%s", m.Pid(), path)
}
