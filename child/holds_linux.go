package child

import (
	"fmt"
	"os"
	"slices"
	"strconv"
)

// Holds says which of the sockets with these inode numbers a member of the tree has open. known is false where that
// cannot be seen, because /proc does not show another process's descriptors. It does not wait for anything.
func (t *Tree) Holds(inodes []uint64) (held []bool, known bool, err error) {
	held = make([]bool, len(inodes))
	place := make(map[string]int, len(inodes))
	for i, inode := range inodes {
		place["socket:["+strconv.FormatUint(inode, 10)+"]"] = i
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
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if os.IsPermission(err) {
		return false
	}
	for _, e := range entries {
		link, err := os.Readlink(dir + "/" + e.Name())
		if err != nil {
			continue
		}
		if i, ok := place[link]; ok {
			held[i] = true
		}
	}
	return true
}
