package child

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// handle looks at one call, and reports whether nothing is left to do for the kernel. An error is
// that it could not be looked at.
func (l *lender) handle(listener int, n *notification) (handled bool, err error) {
	native, _ := nativeABI()
	switch {
	case n.arch != native.arch:
		l.tell(fmt.Sprintf("%s is a 32-bit program, and those cannot adopt a socket", caller(n.pid)))
		return false, nil
	case n.call == int32(native.bind):
		return l.bind(listener, n)
	}
	return l.listens(listener, n), nil
}

// bind answers bind(2).
func (l *lender) bind(listener int, n *notification) (bool, error) {
	c, number, size := caller(n.pid), n.descriptor(), int(int32(n.args[2]))
	if size < 2 || size > fdpass.MaxSockaddr {
		return false, nil // the kernel says what is wrong with it
	}
	own, err := c.socket(number)
	if errors.Is(err, unix.EBADF) {
		return false, nil
	}
	if err != nil {
		return false, n.unlessGone(listener, err)
	}
	defer own.Close()
	address, err := c.memory(n.args[1], size)
	if errors.Is(err, unix.EFAULT) {
		return false, nil
	}
	if err != nil {
		return false, n.unlessGone(listener, err)
	}
	asked, err := fdpass.AskedOf(own.Raw(), address, c.locate)
	if err != nil {
		return false, nil // it is not for a socket of ours
	}
	o := l.meant(asked, own)
	if !n.waits(listener) {
		return false, errNotWaiting
	}
	if o == nil {
		l.compare(c, asked)
		return false, nil
	}
	if c.inode(number) == o.inode { // a signal has interrupted it the first time, after it had got the socket
		return true, nil
	}
	return l.give(listener, n, o, own)
}

// unlessGone returns err, or errNotWaiting if that is the reason.
func (n *notification) unlessGone(listener int, err error) error {
	if !n.waits(listener) {
		return errNotWaiting
	}
	return err
}

// meant returns the offer that is asked for; nil if none is. own is the program's socket, which is
// borrowed.
func (l *lender) meant(asked fdpass.Asked, own *fdpass.FD) *lent {
	for _, o := range l.offers {
		if o.Bound.Means(asked) && sameNetwork(own.Raw(), o.FD.Raw()) {
			return o
		}
	}
	return nil
}

// sameNetwork reports whether two sockets are in one network namespace. Before Linux 5.14 it is
// taken for granted.
func sameNetwork(a, b int) bool {
	one, err := unix.GetsockoptUint64(a, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return true
	}
	other, err := unix.GetsockoptUint64(b, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	return err != nil || one == other
}

// give puts the socket in the place of the program's own one.
func (l *lender) give(listener int, n *notification, o *lent, own *fdpass.FD) (bool, error) {
	c, number := caller(n.pid), n.descriptor()
	closesOnExec := c.closesOnExec(number)
	l.alike(o, own)
	// A service may remove the path before it binds, and change its mode right after that.
	if err := o.Bound.Socket.PutBack(); err != nil {
		l.log.Warn("the path of a socket was removed, and cannot be put back yet", "socket", o.name(), "cause", err)
	}
	if err := n.replace(listener, number, o.FD.Raw(), closesOnExec); err != nil {
		if !n.waits(listener) {
			return false, errNotWaiting
		}
		l.log.Error("a socket cannot be given to the service", "socket", o.name(), "cause", err)
		return false, nil
	}
	l.mu.Lock()
	first := !o.Taken
	o.Taken = true
	l.mu.Unlock()
	l.log.Debug("the service has got a socket", "socket", o.name(), "process", c.String())
	if first {
		l.count()
	}
	return true, nil
}

// alike gives the socket the O_NONBLOCK of the program's own one, as long as nobody has it who may
// rely on what it is. Nothing of the supervisor's does: see fdpass.
func (l *lender) alike(o *lent, own *fdpass.FD) {
	want, err := unix.FcntlInt(uintptr(own.Raw()), unix.F_GETFL, 0)
	if err != nil {
		return
	}
	have, err := unix.FcntlInt(uintptr(o.FD.Raw()), unix.F_GETFL, 0)
	if err != nil || (want^have)&unix.O_NONBLOCK == 0 {
		return
	}
	if o.Alone && !o.Taken {
		err = unix.SetNonblock(o.FD.Raw(), want&unix.O_NONBLOCK != 0)
	}
	if err != nil || !o.Alone || o.Taken {
		blocks := map[bool]string{true: "does not block", false: "blocks"}
		l.tell(fmt.Sprintf("the service has made a socket for %s that %s, and gets one that %s: others have it too, and would not expect a change",
			o.name(), blocks[want&unix.O_NONBLOCK != 0], blocks[have&unix.O_NONBLOCK != 0]))
	}
}

// listens answers listen(2): a socket that was lent listens already, with the backlog of the
// configuration, which the program would change for everybody.
func (l *lender) listens(listener int, n *notification) (handled bool) {
	inode := caller(n.pid).inode(n.descriptor())
	for _, o := range l.offers {
		if inode != o.inode {
			continue
		}
		on, err := unix.GetsockoptInt(o.FD.Raw(), unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
		return err == nil && on != 0
	}
	return false
}
