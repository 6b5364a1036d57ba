package fdpass

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"golang.org/x/sys/unix"
)

// errPlain is wrapped by reasons not to steer a socket of systemd's that are in
// the nature of its unit.
var errPlain = errors.New("it is a plain socket")

// adoptSteered makes a Socket of a duplicate of fd, which is borrowed, and which
// systemd has made with ReusePort=yes. It never leaves the group, because systemd
// has it too. The error says in words why it cannot be steered.
func adoptSteered(s Spec, fd *FD, log *slog.Logger) (_ *steered, err error) {
	e, err := inspect(fd.Raw())
	switch {
	case err != nil:
		return nil, err
	case !e.tcp():
		return nil, fmt.Errorf("%w: it is not tcp", errPlain)
	}
	on, err := unix.GetsockoptInt(fd.Raw(), unix.SOL_SOCKET, unix.SO_REUSEPORT)
	if err != nil {
		return nil, os.NewSyscallError("getsockopt SO_REUSEPORT", err)
	}
	if on == 0 {
		return nil, fmt.Errorf("%w: its .socket unit does not say ReusePort=yes", errPlain)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd.Raw(), &stat); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	if int(stat.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("it belongs to user %d, and only that one's sockets can join it", stat.Uid)
	}
	if err := (steering{}).attach(fd.Raw()); err != nil {
		return nil, err
	}
	own, err := fd.Dup()
	if err != nil {
		return nil, err
	}
	st := newSteered(s, own, e, log)
	if st.spec, err = likeness(s, own.Raw(), e); err != nil {
		_ = own.Close()
		return nil, err
	}
	st.seats[0].foreign = true
	return st, nil
}
