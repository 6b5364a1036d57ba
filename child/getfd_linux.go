package child

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// Socket returns a duplicate, which the caller owns, of the socket with this inode
// number, from a member of the tree that has it open; os.ErrNotExist if none has.
// It takes the right to trace that process, see pidfd_getfd(2) and ptrace(2).
func (t *Tree) Socket(inode uint64) (*fdpass.FD, error) {
	pids, err := t.Members()
	if err != nil {
		return nil, err
	}
	want := socketLink + strconv.FormatUint(inode, 10) + "]"
	var refused error
	for _, pid := range pids {
		dir := fmt.Sprintf("/proc/%d/fd", pid)
		entries, err := os.ReadDir(dir)
		if err != nil {
			refused = err
			continue
		}
		for _, e := range entries {
			if link, err := os.Readlink(filepath.Join(dir, e.Name())); err != nil || link != want {
				continue
			}
			number, err := strconv.Atoi(e.Name())
			if err != nil {
				continue
			}
			fd, err := getfd(pid, number, inode)
			if err == nil {
				return fd, nil
			}
			refused = err
		}
	}
	if refused != nil {
		return nil, refused
	}
	return nil, os.ErrNotExist
}

// getfd duplicates a descriptor of another process, if it is the socket with this
// inode number then.
func getfd(pid, number int, inode uint64) (*fdpass.FD, error) {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(process)
	raw, err := unix.PidfdGetfd(process, number, 0)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_getfd", err)
	}
	fd := fdpass.NewFD(raw)
	var st unix.Stat_t
	if err := unix.Fstat(raw, &st); err != nil || st.Ino != inode || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		fd.Close()
		return nil, os.ErrNotExist // it has changed meanwhile
	}
	return fd, nil
}
