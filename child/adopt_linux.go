package child

import (
	"context"
	"fmt"
)

// An Adoption names a running process that somebody else has started, such as
// the supervisor that was here before.
type Adoption struct {
	Pid       int
	StartTime uint64 // as Process.StartTime said, in the same boot

	// Notify and Cgroup are those of the Command that it was started with, for
	// its Tree.
	Notify string
	Cgroup *Cgroup

	// UID is the user that it runs as, for Remains: Adopt asks the kernel.
	UID uint32
}

// Adopt takes a running process over. It returns os.ErrProcessDone, wrapped, if
// that process is gone. The caller closes the Process.
//
// How it ends is not told to a process that is not its parent: Exit says so.
func Adopt(a Adoption) (*Process, error) {
	id := procID{pid: a.Pid, start: a.StartTime}
	fd, err := openMember(id)
	if err != nil {
		return nil, fmt.Errorf("take over process %d: %w", a.Pid, err)
	}
	uid, err := uidOf(a.Pid)
	if err != nil {
		fd.close()
		return nil, fmt.Errorf("take over process %d: %w", a.Pid, err)
	}
	p := newProcess(id, fd)
	p.tree.adopted = true
	p.tree.notify = a.Notify
	p.tree.cgroup = a.Cgroup
	p.tree.uid = uid

	p.watching.Add(1)
	go func() {
		defer p.watching.Done()
		// An error is the Close that also waits for this goroutine: then nobody
		// knows whether the process has ended.
		if p.fd.wait(context.Background()) == nil {
			p.ended(Exit{})
		}
	}()
	return p, nil
}

// Remains is for a process that has ended unseen: what it has left behind is its
// Tree. Done is closed from the start. The caller closes the Process.
func Remains(a Adoption) *Process {
	p := newProcess(procID{pid: a.Pid, start: a.StartTime}, gonePidfd())
	p.tree.adopted = true
	p.tree.notify = a.Notify
	p.tree.cgroup = a.Cgroup
	p.tree.uid = a.UID
	p.ended(Exit{})
	return p
}

// UID returns the effective user that the process runs as now.
func (p *Process) UID() (uint32, error) { return uidOf(p.id.pid) }
