package logging

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// isJournal reports whether out is what JOURNAL_STREAM says that the journal has, by device and inode.
func isJournal(out io.Writer, stream string) bool {
	f, ok := out.(*os.File)
	var device, inode uint64
	if n, err := fmt.Sscanf(stream, "%d:%d", &device, &inode); !ok || n != 2 || err != nil {
		return false
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	var st unix.Stat_t
	if raw.Control(func(fd uintptr) { err = unix.Fstat(int(fd), &st) }) != nil || err != nil {
		return false
	}
	return uint64(st.Dev) == device && st.Ino == inode
}

// A journalSink sends to the journal's socket. Where that does not take a line, it goes to standard error.
type journalSink struct {
	path   string
	conn   *net.UnixConn // nil while there is none
	stderr io.Writer     // borrowed
}

// dialJournal connects to the journal. It does not block.
func dialJournal(path string, stderr io.Writer) (*journalSink, error) {
	s := &journalSink{path: path, stderr: stderr}
	return s, s.dial()
}

func (s *journalSink) dial() (err error) {
	s.conn, err = net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.path, Net: "unixgram"})
	if err != nil {
		s.conn = nil
	}
	return err
}

// write sends a line. It blocks as long as the journal has no room.
func (s *journalSink) write(l line) {
	if s.send(l.text) == nil {
		return
	}
	// The journal may have been started anew.
	s.close()
	if s.dial() == nil && s.send(l.text) == nil {
		return
	}
	_, _ = s.stderr.Write(l.plain)
}

func (s *journalSink) send(text []byte) error {
	if s.conn == nil {
		return net.ErrClosed
	}
	_, err := s.conn.Write(text)
	if errors.Is(err, unix.EMSGSIZE) || errors.Is(err, unix.ENOBUFS) {
		return s.sendFile(text)
	}
	return err
}

// sendFile sends what is too large for a datagram: as a sealed file in memory, which the journal can read without being changed meanwhile.
func (s *journalSink) sendFile(text []byte) error {
	fd, err := unix.MemfdCreate("log", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "log")
	defer f.Close()
	if _, err := f.Write(text); err != nil {
		return err
	}
	const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return os.NewSyscallError("fcntl F_ADD_SEALS", err)
	}
	// WriteMsgUnix refuses a socket that is connected.
	raw, err := s.conn.SyscallConn()
	if err != nil {
		return err
	}
	var sending error
	if err := raw.Write(func(socket uintptr) (sent bool) {
		for sending = unix.EINTR; sending == unix.EINTR; {
			sending = unix.Sendmsg(int(socket), nil, unix.UnixRights(fd), nil, unix.MSG_NOSIGNAL)
		}
		return sending != unix.EAGAIN
	}); err != nil {
		return err
	}
	return os.NewSyscallError("sendmsg", sending)
}

func (s *journalSink) close() {
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}
