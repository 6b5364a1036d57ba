package systemd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// maxSocketPath is how long the path of a unix socket may be, in bytes: sun_path
// in unix(7) takes one more, for the NUL.
const maxSocketPath = 107

// maxDescriptors is how many descriptors one message may carry (SCM_MAX_FD in
// the kernel).
const maxDescriptors = 253

// A Message is a notification with its sender, as the kernel tells it.
type Message struct {
	Notification

	// Sender is the process that sent the datagram. It may be gone by now.
	Sender Sender

	// BarrierFD is not nil if and only if Barrier is set. The receiver of the
	// Message owns it and closes it when it has handled all earlier messages:
	// that is what the sender waits for.
	BarrierFD *fdpass.FD
}

// A Sender is a process by its credentials (SCM_CREDENTIALS in unix(7)), as seen
// from the receiver's namespaces. Only a privileged sender can pretend to be
// another.
type Sender struct {
	PID      int
	UID, GID uint32
}

// Dropped counts datagrams that were thrown away unread.
type Dropped struct {
	Oversized uint64 // longer than 4096 bytes
	Malformed uint64 // see Parse; and barriers without exactly one descriptor
	Anonymous uint64 // without the sender's process id
}

// A Receiver is the other end of a notify socket. It takes datagrams from
// whoever may write to its path: who may say what is for its user to decide, by
// the Sender of each Message.
//
// It holds nothing but what one call of Receive needs, so a flood of datagrams
// costs time and no memory. Those that are not read wait in the kernel, which
// makes senders wait when there are too many.
type Receiver struct {
	conn *net.UnixConn
	path string
	file fs.FileInfo // what path was when it was bound

	oversized, malformed, anonymous atomic.Uint64

	closing  sync.Once
	closeErr error
}

// Listen binds a notify socket at path with the permission bits of mode, which
// the umask does not change; to send takes write permission. It takes the place
// of a socket that nobody listens on any more, and of nothing else. A path of
// more than 107 bytes is an error that wraps ErrAddress.
func Listen(path string, mode fs.FileMode) (*Receiver, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("the path of the notify socket %s has %d bytes, and a unix socket takes at most %d: %w",
			path, len(path), maxSocketPath, ErrAddress)
	}
	if err := removeStale(path); err != nil {
		return nil, fmt.Errorf("make room for the notify socket: %w", err)
	}
	conn, err := bind(path, mode)
	if err != nil {
		return nil, fmt.Errorf("bind the notify socket: %w", err)
	}
	file, err := os.Lstat(path)
	if err == nil && file.Mode().Perm() != mode.Perm() { // the umask took something away
		err = os.Chmod(path, mode.Perm())
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("set the mode of the notify socket: %w", err)
	}
	return &Receiver{conn: conn, path: path, file: file}, nil
}

// removeStale removes a datagram socket at path whose owner has ended.
func removeStale(path string) error {
	file, err := os.Lstat(path)
	if err != nil || file.Mode().Type() != fs.ModeSocket {
		return nil // bind will tell what is wrong with it, if anything is
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Net: "unixgram", Name: path})
	if err == nil {
		conn.Close()
		return nil // somebody listens
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return nil
	}
	return os.Remove(path)
}

// bind makes the socket ready to receive credentials before it has an address,
// so that no datagram comes without them. Its mode too is set before, which
// the kernel takes over to the file: there is no moment at which it is open to
// more than mode says.
func bind(path string, mode fs.FileMode) (*net.UnixConn, error) {
	config := net.ListenConfig{
		Control: func(_, _ string, raw syscall.RawConn) error {
			var failed error
			err := raw.Control(func(fd uintptr) {
				if err := unix.Fchmod(int(fd), uint32(mode.Perm())); err != nil {
					failed = os.NewSyscallError("fchmod", err)
					return
				}
				err := unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
				failed = os.NewSyscallError("setsockopt", err)
			})
			return errors.Join(err, failed)
		},
	}
	conn, err := config.ListenPacket(context.Background(), "unixgram", path)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

// Path returns the path that the socket is bound to, for NOTIFY_SOCKET.
func (r *Receiver) Path() string { return r.path }

// Receive blocks until there is a message, and returns the next one. Datagrams
// that make no message are dropped and counted on the way. After Close, and in
// a call that Close interrupts, the error wraps net.ErrClosed; any other error
// may pass. Receive is for one goroutine, the one that has to keep messages in
// order.
func (r *Receiver) Receive() (Message, error) {
	var (
		data    [maxDatagram + 1]byte // one more, to see that a datagram is too long
		control [unix.SizeofCmsghdr*2 + unix.SizeofUcred + maxDescriptors*4 + 16]byte
	)
	for {
		n, controlLen, flags, _, err := r.conn.ReadMsgUnix(data[:], control[:])
		if err != nil {
			return Message{}, fmt.Errorf("receive a notification: %w", err)
		}
		sender, fds := parseControl(control[:controlLen])
		m, ok := r.message(data[:n], flags, sender, fds)
		if ok {
			return m, nil
		}
	}
}

// message judges one datagram. It takes ownership of fds.
func (r *Receiver) message(data []byte, flags int, sender Sender, fds []*fdpass.FD) (Message, bool) {
	defer func() {
		for _, fd := range fds {
			fd.Close()
		}
	}()
	if flags&unix.MSG_TRUNC != 0 || len(data) > maxDatagram {
		r.oversized.Add(1)
		return Message{}, false
	}
	if sender.PID <= 0 {
		r.anonymous.Add(1)
		return Message{}, false
	}
	n, err := Parse(data)
	// Where descriptors were cut off, which happens when this process has no
	// room for more, the barrier's may be among them.
	if err != nil || n.Barrier && (len(fds) != 1 || flags&unix.MSG_CTRUNC != 0) {
		r.malformed.Add(1)
		return Message{}, false
	}
	m := Message{Notification: n, Sender: sender}
	if n.Barrier {
		m.BarrierFD, fds = fds[0], nil
	}
	return m, true
}

// parseControl reads control messages. It takes in every descriptor among them,
// also where they were cut short: the kernel writes only whole ones, and has put
// each of them into this process's table already.
func parseControl(control []byte) (sender Sender, fds []*fdpass.FD) {
	for len(control) >= unix.SizeofCmsghdr {
		header, data, rest, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			break
		}
		control = rest
		m := unix.SocketControlMessage{Header: header, Data: data}
		if rights, err := unix.ParseUnixRights(&m); err == nil {
			for _, fd := range rights {
				fds = append(fds, fdpass.NewFD(fd))
			}
		} else if cred, err := unix.ParseUnixCredentials(&m); err == nil {
			sender = Sender{PID: int(cred.Pid), UID: cred.Uid, GID: cred.Gid}
		}
	}
	return sender, fds
}

// Dropped returns what was dropped so far. It may be called at any time.
func (r *Receiver) Dropped() Dropped {
	return Dropped{
		Oversized: r.oversized.Load(),
		Malformed: r.malformed.Load(),
		Anonymous: r.anonymous.Load(),
	}
}

// Close closes the socket, makes a blocked Receive return, and removes the
// socket's file if it is still this one's. Descriptors of barriers that nobody
// has read are closed with it. Closing again returns what it did the first time.
func (r *Receiver) Close() error {
	r.closing.Do(func() {
		r.closeErr = r.conn.Close()
		if file, err := os.Lstat(r.path); err == nil && os.SameFile(file, r.file) {
			r.closeErr = errors.Join(r.closeErr, os.Remove(r.path))
		}
	})
	return r.closeErr
}
