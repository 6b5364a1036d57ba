package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// powerOff is SIGRTMIN+4, which systemd takes as "systemctl poweroff" (systemd(1)). SIGRTMIN is 34 in the C library: it keeps two for itself.
const powerOff = syscall.Signal(34 + 4)

// Stop powers the machine off, so that all its units are stopped in order, and removes what was made for it. If that is not done when ctx ends,
// the machine is killed and the error says so.
func (m *Machine) Stop(ctx context.Context) error {
	err := m.init.Signal(powerOff)
	if err == nil {
		select {
		case <-m.done:
		case <-ctx.Done():
			err = fmt.Errorf("machine did not power off in time and was killed: %w", ctx.Err())
		}
	} else if errors.Is(err, os.ErrProcessDone) {
		err = errors.New("machine had ended by itself")
	}
	return errors.Join(err, m.Kill())
}

// Kill ends the machine at once, with everything in it, and removes what was made for it. It blocks until all processes are gone.
func (m *Machine) Kill() error {
	var errs []error
	if m.init != nil {
		if err := m.init.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, err)
		}
		<-m.done
	}
	if m.root >= 0 {
		unix.Close(m.root)
		m.root = -1
	}
	if m.cgroup != "" {
		errs = append(errs, RemoveCgroup(m.cgroup))
	}
	if m.dir != "" {
		errs = append(errs, os.RemoveAll(m.dir))
	}
	m.cgroup, m.dir = "", ""
	return errors.Join(errs...)
}

// Done is closed when the machine has ended.
func (m *Machine) Done() <-chan struct{} { return m.done }

// Pid is the machine's init as the host numbers it.
func (m *Machine) Pid() int { return m.init.Pid }

// Cgroup is the directory of the machine's cgroup on the host; the machine sees it as the root. Empty after the end.
func (m *Machine) Cgroup() string { return m.cgroup }

// Scratch is the machine's directory on the host. Empty after the end.
func (m *Machine) Scratch() string { return m.dir }
