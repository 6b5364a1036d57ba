package child

import (
	"cmp"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// scan finds the living members, by pid, and remembers them.
func (t *Tree) scan() ([]procID, error) {
	// Also around the snapshot, so that an older one cannot take the place of a
	// newer one in seen.
	t.mu.Lock()
	defer t.mu.Unlock()
	all, err := snapshot()
	if err != nil {
		return nil, err
	}

	f := family{all: all, in: make(map[int]bool)}
	var born []int // in the cgroup
	if t.cgroup != nil {
		if born, err = t.cgroup.pids(); err != nil {
			return nil, err
		}
		for _, pid := range born {
			if st, err := readStat(pid); err == nil {
				all[pid] = st // may be younger than the snapshot
			}
		}
	}
	f.children = make(map[int][]int, len(all))
	for pid, st := range all {
		f.children[st.ppid] = append(f.children[st.ppid], pid)
	}
	for _, pid := range born {
		f.add(pid)
	}
	look := func(pid int) (procStat, bool) {
		st, ok := all[pid]
		return st, ok
	}
	for pid, st := range all {
		if st.procID == t.main.id || t.seen[st.procID] || t.inSession(st, look) {
			f.add(pid)
		}
	}
	// Last, because it costs the most for each process.
	for pid, st := range all {
		if !f.in[pid] && t.marked(st, look) {
			f.add(pid)
		}
	}

	var ids []procID
	t.seen = make(map[procID]bool)
	for pid := range f.in {
		if st := all[pid]; !st.dead {
			ids = append(ids, st.procID)
			t.seen[st.procID] = true
		}
	}
	slices.SortFunc(ids, func(a, b procID) int { return cmp.Compare(a.pid, b.pid) })
	return ids, nil
}

// A family is a snapshot in which members are being found.
type family struct {
	all      map[int]procStat
	children map[int][]int
	in       map[int]bool
}

// add makes pid and all that descends from it members. We are never one, even if
// a member has started us.
func (f *family) add(pid int) {
	if _, known := f.all[pid]; !known || f.in[pid] || pid == os.Getpid() || pid == 1 {
		return
	}
	f.in[pid] = true
	for _, child := range f.children[pid] {
		f.add(child)
	}
}

// inSession says whether a process is in the session of the main process, whose
// number is the main process's pid; look finds others. The kernel gives that
// number out again only once nobody is in the session any more, and then another
// process leads it.
func (t *Tree) inSession(st procStat, look func(pid int) (procStat, bool)) bool {
	if st.session != t.main.id.pid || st.start < t.main.id.start {
		return false
	}
	leader, alive := look(st.session)
	return !alive || leader.procID == t.main.id
}

// marked says whether a process carries the generation's mark and may do so; look
// finds others.
func (t *Tree) marked(st procStat, look func(pid int) (procStat, bool)) bool {
	if t.notify == "" || st.dead || st.start < t.main.id.start {
		return false
	}
	if !t.adopted && !descendsFromUs(st, look) {
		return false
	}
	uid, err := uidOf(st.pid)
	if err != nil || uid != 0 && uid != t.uid {
		return false
	}
	return hasEnv(st.pid, notifyEntry(t.notify))
}

// descendsFromUs follows the parents up. Orphans fall to us, so everything that a
// child of ours has started is below us for ever.
func descendsFromUs(st procStat, look func(pid int) (procStat, bool)) bool {
	self := os.Getpid()
	for range maxDepth {
		if st.ppid == self {
			return true
		}
		parent, ok := look(st.ppid)
		if !ok {
			return false
		}
		st = parent
	}
	return false
}

// maxDepth bounds a walk along parents, which are read one by one while processes
// come and go.
const maxDepth = 1 << 10

// Contains says whether the process that has the number pid now belongs to the
// tree. It looks at that process and its ancestors alone, so it is cheap enough to
// be asked for each message that somebody sends. One that has ended is no member.
func (t *Tree) Contains(pid int) bool {
	st, err := readStat(pid)
	if err != nil || pid == os.Getpid() || pid == 1 {
		return false
	}
	if t.cgroup != nil && t.cgroup.contains(pid) {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	known := make(map[int]procStat)
	look := func(pid int) (procStat, bool) {
		if st, ok := known[pid]; ok {
			return st, true
		}
		st, err := readStat(pid)
		if err == nil {
			known[pid] = st
		}
		return st, err == nil
	}
	for range maxDepth {
		if st.procID == t.main.id || t.seen[st.procID] || t.inSession(st, look) || t.marked(st, look) {
			return true
		}
		parent, ok := look(st.ppid)
		if !ok || parent.pid == os.Getpid() || parent.pid == 1 {
			return false
		}
		st = parent
	}
	return false
}

// uidOf returns the effective user of a process, or root if the process hides it.
func uidOf(pid int) (uint32, error) {
	var st unix.Stat_t
	if err := unix.Stat("/proc/"+strconv.Itoa(pid), &st); err != nil {
		return 0, os.NewSyscallError("stat", err)
	}
	return st.Uid, nil
}
