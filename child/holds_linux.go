package child

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Holds says which of the sockets with these inode numbers a member of the tree has open. known is false where that
// cannot be seen, because /proc does not show another process's descriptors. It does not wait for anything.
func (t *Tree) Holds(inodes []uint64) (held []bool, known bool, err error) {
	pids, err := t.Members()
	if err != nil {
		return nil, false, err
	}
	held = make([]bool, len(inodes))
	place := make(map[string]int, len(inodes))
	for i, inode := range inodes {
		place["socket:["+strconv.FormatUint(inode, 10)+"]"] = i
	}
	for _, pid := range pids {
		dir := fmt.Sprintf("/proc/%d/fd", pid)
		entries, err := os.ReadDir(dir)
		if os.IsPermission(err) {
			return held, false, nil
		}
		for _, e := range entries { // none if it has ended meanwhile
			link, err := os.Readlink(dir + "/" + e.Name())
			if err != nil || !strings.HasPrefix(link, "socket:") {
				continue
			}
			if i, ok := place[link]; ok {
				held[i] = true
			}
		}
	}
	return held, true, nil
}
