package child

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Holds says which of the sockets with these inode numbers a member of the tree has open. known is false where that
// cannot be seen, because /proc does not show another process's descriptors. It does not wait for anything.
func (t *Tree) Holds(inodes []uint64) (held []bool, known bool, err error) {
	held = make([]bool, len(inodes))
	place := make(map[string]int, len(inodes))
	for i, inode := range inodes {
		place[socketLink+strconv.FormatUint(inode, 10)+"]"] = i
	}
	// Nearly always the main process has them all, and then nobody else has to be looked for.
	if known = markHeld(t.main.id.pid, place, held); !known || !slices.Contains(held, false) {
		return held, known, nil
	}
	pids, err := t.Members()
	for _, pid := range pids {
		known = known && markHeld(pid, place, held)
	}
	return held, known, err
}

// markHeld marks the sockets that a process has open, and reports whether it could be seen. One that has ended has none.
func markHeld(pid int, place map[string]int, held []bool) bool {
	return eachDescriptor(pid, func(link string) {
		if i, ok := place[link]; ok {
			held[i] = true
		}
	})
}

// Sockets returns the inode numbers of all sockets that members of the tree have open. known is false where some of
// them cannot be seen, because /proc does not show another process's descriptors. It does not wait for anything.
func (t *Tree) Sockets() (inodes map[uint64]bool, known bool, err error) {
	pids, err := t.Members()
	if err != nil {
		return nil, false, err
	}
	inodes, known = make(map[uint64]bool), true
	for _, pid := range pids {
		seen := eachDescriptor(pid, func(link string) {
			number, isSocket := strings.CutPrefix(link, socketLink)
			if !isSocket {
				return
			}
			if n, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 64); err == nil {
				inodes[n] = true
			}
		})
		known = known && seen
	}
	return inodes, known, nil
}

// socketLink is what the link of a socket in /proc/PID/fd begins with; its inode number and "]" follow.
const socketLink = "socket:["

// eachDescriptor calls each with what the descriptors of a process are, as /proc/PID/fd has it, and reports whether that
// could be seen. A process that has ended has none.
func eachDescriptor(pid int, each func(link string)) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if os.IsPermission(err) {
		return false
	}
	for _, e := range entries {
		link, err := os.Readlink(dir + "/" + e.Name())
		if os.IsPermission(err) { // to list them takes less than to see what they are
			return false
		}
		if err == nil {
			each(link)
		}
	}
	return true
}
