package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Tree is all processes of one generation: its main process and what descends
// from it, daemons too. With a cgroup of its own, whoever is in that belongs to
// it. Besides, and without one, these do:
//
//   - the main process, and the children of all members,
//   - those in the main process's session,
//   - those that were found to be members before,
//   - those whose environment has the generation's NOTIFY_SOCKET, if they run as
//     root or as the generation's user and, unless the generation was adopted,
//     descend from this process. That is how daemons are found, which leave both
//     session and parents.
//
// A program that does all of it, leaves the session in a process that ends before
// anybody looks and overwrites its environment, gets away, but not from a cgroup.
//
// All methods may be called from several goroutines at once, also when the main
// process has ended.
type Tree struct {
	main    *Process
	adopted bool
	notify  string
	uid     uint32
	cgroup  *Cgroup // borrowed

	mu   sync.Mutex
	seen map[procID]bool // the members that the last scan found
}

const (
	// A round of killing is repeated after this time if somebody is not gone yet:
	// he may have forked, or wait for a disk.
	killRound = 50 * time.Millisecond

	// So often members are looked for that are not stopped yet. Two rounds do for
	// a tree that does not fork.
	freezeRounds = 100

	// This many members are held at once. A tree may have more processes than we
	// may have descriptors.
	batch = 64
)

// Members returns the pids of the living members, in ascending order. It reads
// /proc, and may miss a process that is just being forked.
func (t *Tree) Members() ([]int, error) {
	ids, err := t.scan()
	pids := make([]int, len(ids))
	for i, id := range ids {
		pids[i] = id.pid
	}
	return pids, err
}

// Signal sends sig to every member. It returns os.ErrProcessDone if there is none.
func (t *Tree) Signal(sig unix.Signal) error {
	ids, err := t.scan()
	if err != nil {
		return err
	}
	reached := false
	var failed []error
	for _, id := range ids {
		switch err := signalMember(id, sig); {
		case err == nil:
			reached = true
		case !errors.Is(err, os.ErrProcessDone):
			failed = append(failed, err)
		}
	}
	if !reached && failed == nil {
		return os.ErrProcessDone
	}
	return errors.Join(failed...)
}

// Kill stops all members and then sends SIGKILL to them, again and again, until
// nobody is left. It blocks until then, and until Done is closed for a child of
// ours. When ctx ends, or when those left may not be killed, the error names them.
func (t *Tree) Kill(ctx context.Context) error {
	// Before Linux 5.14 there is no cgroup.kill.
	if t.cgroup == nil || t.cgroup.Kill() != nil {
		found, err := t.freeze(ctx)
		if err == nil && !found && t.cgroup == nil {
			return t.mainDone(ctx)
		}
	}
	for {
		if t.cgroup != nil {
			_ = t.cgroup.Kill()
		}
		_ = t.main.fd.signalGroup(unix.SIGKILL) // as in freeze

		ids, err := t.scan()
		if err != nil {
			// Descriptors or memory may be short for a moment; giving up now would leave a tree that is stopped for good.
			if waited := pause(ctx, killRound); waited != nil {
				return errors.Join(waited, err)
			}
			continue
		}
		if len(ids) == 0 {
			empty, err := t.cgroupEmpty()
			if err != nil {
				return err
			}
			if empty {
				return t.mainDone(ctx)
			}
		}
		if err := killRoundOf(ctx, ids); err != nil {
			return fmt.Errorf("kill the processes %v: %w", pidsOf(ids), err)
		}
	}
}

// pause waits for d, or until ctx ends: then it returns its cause.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// freeze stops all members and says whether there were any. Somebody who is killed while he forks leaves a child
// that nothing may connect with the tree any more; a parent that is only stopped
// is still seen to be its parent.
func (t *Tree) freeze(ctx context.Context) (found bool, err error) {
	// The main process's group in one step, however fast it forks. Before Linux
	// 6.9, or when nobody is in the group, that fails, and the scan has to do.
	_ = t.main.fd.signalGroup(unix.SIGSTOP)
	stopped := make(map[procID]bool)
	for range freezeRounds {
		ids, err := t.scan()
		if err != nil {
			return false, err
		}
		more := false
		for _, id := range ids {
			if !stopped[id] {
				stopped[id], more = true, true
				_ = signalMember(id, unix.SIGSTOP) // whether he may be signalled, the kill will tell
			}
		}
		if !more || ctx.Err() != nil {
			break
		}
	}
	return len(stopped) > 0, nil
}

// killRoundOf kills ids and waits for a while for them to be gone.
func killRoundOf(ctx context.Context, ids []procID) error {
	round, cancel := context.WithTimeout(ctx, killRound)
	defer cancel()
	var refused error
	reached := len(ids) == 0
	for chunk := range slices.Chunk(ids, batch) {
		held, err := hold(chunk)
		if err != nil {
			return err
		}
		for _, m := range held {
			if err := m.signal(unix.SIGKILL); err == nil || errors.Is(err, os.ErrProcessDone) {
				reached = true
			} else {
				refused = err
			}
		}
		reached = reached || len(held) < len(chunk) // the others were gone by themselves
		if reached {
			err = waitAll(round, held)
		}
		release(held)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil && round.Err() == nil {
			return err
		}
	}
	if !reached {
		return refused
	}
	return nil
}

// Gone blocks until nobody is left, and until Done is closed for a child of ours.
// When ctx ends first, the error names who is left and wraps its cause.
func (t *Tree) Gone(ctx context.Context) error {
	for {
		ids, err := t.scan()
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			empty, err := t.cgroupEmpty()
			if err != nil {
				return err
			}
			if empty {
				return t.mainDone(ctx)
			}
			if err := t.cgroup.Empty(ctx); err != nil {
				return err
			}
		}
		// All have to go, so it does not matter in which order they are waited
		// for. Those that they have forked meanwhile come in the next scan.
		for chunk := range slices.Chunk(ids, batch) {
			held, err := hold(chunk)
			if err == nil {
				err = waitAll(ctx, held)
			}
			release(held)
			if ctx.Err() != nil {
				left, _ := t.Members()
				return fmt.Errorf("the processes %v are not gone: %w", left, context.Cause(ctx))
			}
			if err != nil {
				return err
			}
		}
	}
}

// cgroupEmpty says whether nobody is left in the cgroup, which the kernel knows
// better than any scan.
func (t *Tree) cgroupEmpty() (bool, error) {
	if t.cgroup == nil {
		return true, nil
	}
	populated, err := t.cgroup.populated()
	return !populated, err
}

// mainDone waits until somebody has waited for the main process, which has ended.
func (t *Tree) mainDone(ctx context.Context) error {
	select {
	case <-t.main.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the process %d has not been waited for: %w", t.main.id.pid, context.Cause(ctx))
	}
}

func pidsOf(ids []procID) []int {
	pids := make([]int, len(ids))
	for i, id := range ids {
		pids[i] = id.pid
	}
	return pids
}

func signalMember(id procID, sig unix.Signal) error {
	p, err := openMember(id)
	if err != nil {
		return err
	}
	defer p.close()
	if err := p.signal(sig); err != nil {
		return fmt.Errorf("signal process %d: %w", id.pid, err)
	}
	return nil
}

// hold opens those of ids that are not gone; the caller releases them. Where
// descriptors are scarce it opens fewer, but one at least.
func hold(ids []procID) ([]*pidfd, error) {
	var held []*pidfd
	for _, id := range ids {
		p, err := openMember(id)
		switch {
		case err == nil:
			held = append(held, p)
		case errors.Is(err, os.ErrProcessDone):
		case len(held) == 0:
			return nil, err
		default:
			return held, nil
		}
	}
	return held, nil
}

func release(held []*pidfd) {
	for _, p := range held {
		p.close()
	}
}

func waitAll(ctx context.Context, held []*pidfd) error {
	for _, p := range held {
		if err := p.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}
