package child

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

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
	var found *fdpass.FD
	var refused error
	for _, pid := range pids {
		err := socketsOf(pid, func(number int, has uint64) {
			if has != inode || found != nil {
				return
			}
			fd, err := getfd(pid, number, inode)
			if err != nil {
				refused = err
				return
			}
			found = fd
		})
		if found != nil {
			return found, nil
		}
		if err != nil {
			refused = err
		}
	}
	if refused != nil {
		return nil, refused
	}
	return nil, os.ErrNotExist
}

// A Duplicate is a socket that members of a tree have open, beside a descriptor of
// our own.
type Duplicate struct {
	Inode uint64
	FD    *fdpass.FD // owned by whoever has the Duplicate

	holders []holder
}

// A holder is a descriptor of a member.
type holder struct {
	id     procID
	number int
}

// Duplicates returns one for each of the sockets with these inode numbers that a
// member of the tree has open. Those of which it could not get a descriptor are
// counted in refused, with one of the reasons as err: it takes the right to trace
// the process, see pidfd_getfd(2) and ptrace(2). It does not wait for anything.
func (t *Tree) Duplicates(inodes map[uint64]bool) (all []*Duplicate, refused int, err error) {
	ids, err := t.scan()
	if err != nil {
		return nil, 0, err
	}
	found := make(map[uint64]*Duplicate)
	for _, id := range ids {
		e := socketsOf(id.pid, func(number int, inode uint64) {
			if !inodes[inode] {
				return
			}
			d := found[inode]
			if d == nil {
				d = &Duplicate{Inode: inode}
				found[inode] = d
			}
			d.holders = append(d.holders, holder{id, number})
		})
		if e != nil {
			err = e
		}
	}
	if err != nil { // another may have any of them, too
		return nil, len(inodes), err
	}
	for _, d := range found {
		h := d.holders[0]
		fd, e := getfd(h.id.pid, h.number, d.Inode)
		if errors.Is(e, os.ErrNotExist) || errors.Is(e, unix.EBADF) || errors.Is(e, unix.ESRCH) {
			continue // it has been closed meanwhile
		}
		if e != nil {
			refused, err = refused+1, e
			continue
		}
		d.FD = fd
		all = append(all, d)
	}
	return all, refused, err
}

// Held reports whether one of the descriptors that members had when it was made is
// open still. Others, that they have made since, only Tree.Sockets sees.
func (d *Duplicate) Held() bool {
	want := socketLink + strconv.FormatUint(d.Inode, 10) + "]"
	for _, h := range d.holders {
		link, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", h.id.pid, h.number))
		if err == nil && link == want || err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
			return true // also where it cannot be seen any more
		}
	}
	return false
}

// Holder returns the pid of a process that had it open when it was made, and
// whether that one has ended or is about to: its descriptors are closed by the
// kernel then, and not by itself.
func (d *Duplicate) Holder() (pid int, exiting bool) {
	id := d.holders[0].id
	st, err := readStat(id.pid)
	return id.pid, err != nil || st.procID != id || st.exiting || st.dead
}

// socketsOf calls each with the sockets of a process and the numbers of their descriptors. The error is that they may not
// be seen. A process that has ended has none.
func socketsOf(pid int, each func(number int, inode uint64)) error {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if os.IsPermission(err) {
		return err
	}
	for _, e := range entries {
		link, err := os.Readlink(filepath.Join(dir, e.Name()))
		if os.IsPermission(err) {
			return err
		}
		text, isSocket := strings.CutPrefix(link, socketLink)
		if err != nil || !isSocket {
			continue
		}
		inode, err := strconv.ParseUint(strings.TrimSuffix(text, "]"), 10, 64)
		if err != nil {
			continue
		}
		if number, err := strconv.Atoi(e.Name()); err == nil {
			each(number, inode)
		}
	}
	return nil
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
