package control

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// ErrInUse says that another supervisor answers on the control socket.
var ErrInUse = errors.New("another supervisor is running")

// A Listener is a control socket. It keeps its directory locked: whoever has the lock may remove a socket that is left in
// it. All methods may be called from several goroutines at once, but for Tend and Close.
type Listener struct {
	path string

	mu        sync.Mutex
	socket    *net.UnixListener
	directory *os.File    // locked
	file      os.FileInfo // the socket's own; nil if it was not there when the socket was inherited
	left      bool        // the file is another process's to remove
	temporary bool        // the directory goes with the socket
	closed    bool

	tended *tending // nil until Tend
}

// Listen binds the control socket at path and takes the place of one that nobody answers on. Its directory is locked
// (flock(2)) until the listener is closed, and made if it is not there; if somebody else has it locked, the error wraps
// ErrInUse. Connections wait until Serve.
func Listen(path string) (*Listener, error) {
	l := &Listener{path: path}
	if err := l.bind(); err != nil {
		return nil, err
	}
	return l, nil
}

// bind makes the socket, in the place of the one that the listener has, if there is one.
func (l *Listener) bind() (err error) {
	directory, err := l.lock()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && directory != l.directory {
			directory.Close()
		}
	}()
	socket, file, err := bindSocket(l.path)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.socket != nil {
		l.socket.Close() // which Accept takes for what it is
	}
	if l.directory != nil && l.directory != directory {
		l.directory.Close()
	}
	l.socket, l.file, l.directory = socket, file, directory
	return nil
}

// lock returns the directory of the path, locked: the one that the listener has, if it is that. One that is not there is
// made: a supervisor that has just ended may have removed it with its socket.
func (l *Listener) lock() (*os.File, error) {
	path := filepath.Dir(l.path)
	for {
		if err := MakeDirectory(path); err != nil {
			return nil, fmt.Errorf("make the runtime directory: %w", err)
		}
		directory, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) { // again
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("open the runtime directory: %w", err)
		}
		if l.directory != nil && sameFile(directory, l.directory) {
			directory.Close()
			return l.directory, nil
		}
		if err := flock(directory); err != nil {
			directory.Close()
			return nil, fmt.Errorf("%w with the runtime directory %s; stop it, or choose another --name", err, path)
		}
		if now, err := os.Open(path); err == nil {
			same := sameFile(directory, now)
			now.Close()
			if same {
				return directory, nil
			}
		}
		directory.Close()
	}
}

// sameFile reports whether two open files are the same.
func sameFile(a, b *os.File) bool {
	one, err := a.Stat()
	if err != nil {
		return false
	}
	other, err := b.Stat()
	return err == nil && os.SameFile(one, other)
}

// flock locks a file, or returns ErrInUse. It does not block.
func flock(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var locking error
	if err := raw.Control(func(fd uintptr) { locking = unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB) }); err != nil {
		return err
	}
	if errors.Is(locking, unix.EWOULDBLOCK) {
		return ErrInUse
	}
	return os.NewSyscallError("flock", locking)
}

// bindSocket makes a socket that listens at path, and returns its file too. A socket that is there is removed.
func bindSocket(path string) (*net.UnixListener, os.FileInfo, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
		if err := os.Remove(path); err != nil {
			return nil, nil, fmt.Errorf("remove the socket of a supervisor that is gone: %w", err)
		}
	}
	// The umask is the whole process's, so the permissions are set before anybody can connect instead: a socket that
	// does not listen yet refuses.
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socket", err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return nil, nil, fmt.Errorf("make the control socket %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, nil, fmt.Errorf("make the control socket private: %w", err)
	}
	if err := unix.Listen(fd, unix.SOMAXCONN); err != nil {
		return nil, nil, fmt.Errorf("listen on the control socket %s: %w", path, err)
	}
	file, err := os.Lstat(path)
	if err != nil {
		return nil, nil, fmt.Errorf("make the control socket: %w", err)
	}
	l, err := net.FileListener(f)
	if err != nil {
		return nil, nil, fmt.Errorf("listen on the control socket %s: %w", path, err)
	}
	return l.(*net.UnixListener), file, nil
}

// Accept implements net.Listener. It goes on with another socket where the first one's file was removed, see Tend.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		socket := l.current()
		c, err := socket.Accept()
		if errors.Is(err, net.ErrClosed) && l.current() != socket {
			continue
		}
		return c, err
	}
}

func (l *Listener) current() *net.UnixListener {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.socket
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return l.current().Addr() }

// Close closes the socket and removes its file, and its directory if that is temporary and empty. The lock is let go of,
// unless another process has it from Files. Closing again returns an error that wraps net.ErrClosed.
func (l *Listener) Close() error {
	if l.tended != nil {
		l.tended.end()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return fmt.Errorf("the control socket: %w", net.ErrClosed)
	}
	l.closed = true
	err := l.socket.Close()
	if !l.left && l.present() {
		err = errors.Join(err, os.Remove(l.path))
		if l.temporary { // while it is locked, so that nobody else begins to use it
			_ = os.Remove(filepath.Dir(l.path)) // others may have something in it
		}
	}
	return errors.Join(err, l.directory.Close())
}

// present reports whether the socket's file is where it was bound.
func (l *Listener) present() bool {
	info, err := os.Lstat(l.path)
	return err == nil && l.file != nil && os.SameFile(info, l.file)
}

// Leave makes Close leave the socket's file: another process has the socket.
func (l *Listener) Leave() { l.leave(true) }

// Keep makes Close remove the socket's file again.
func (l *Listener) Keep() { l.leave(false) }

func (l *Listener) leave(left bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = left
}

// Temporary makes Close remove the directory too.
func (l *Listener) Temporary() { l.temporary = true }

// Files returns duplicates, which the caller owns, of what the listener consists of, and what its file is, for Inherit in another
// process. It ends Tend, which would make another socket meanwhile, and can be called again.
func (l *Listener) Files() (fds []*fdpass.FD, file fdpass.FileIdentity, err error) {
	if l.tended != nil {
		l.tended.end()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, part := range []syscall.Conn{l.socket, l.directory} {
		fd, err := fdpass.DupConn(part)
		if err != nil {
			for _, fd := range fds {
				fd.Close()
			}
			return nil, file, err
		}
		fds = append(fds, fd)
	}
	if l.file != nil {
		if st, ok := l.file.Sys().(*syscall.Stat_t); ok {
			file = fdpass.FileIdentity{Device: uint64(st.Dev), Inode: st.Ino}
		}
	}
	return fds, file, nil
}

// Inherit makes a Listener of what Files has returned in another process, which it takes. Another file that is at the path is not
// the socket's, and Tend will see to it; nil for file takes whatever is there for it.
func Inherit(fds []*fdpass.FD, file *fdpass.FileIdentity) (*Listener, error) {
	if len(fds) != 2 {
		return nil, fmt.Errorf("a control socket consists of 2 descriptors, and not of %d", len(fds))
	}
	f := os.NewFile(uintptr(fds[0].Disown()), SocketName)
	directory := os.NewFile(uintptr(fds[1].Disown()), "runtime directory")
	defer f.Close()
	c, err := net.FileListener(f)
	if err != nil {
		directory.Close()
		return nil, fmt.Errorf("take the control socket over: %w", err)
	}
	socket, ok := c.(*net.UnixListener)
	if !ok {
		c.Close()
		directory.Close()
		return nil, errors.New("the control socket is no unix socket")
	}
	l := &Listener{path: socket.Addr().String(), socket: socket, directory: directory}
	if l.file, err = os.Lstat(l.path); err != nil {
		l.file = nil // Tend will see to it
	} else if st, ok := l.file.Sys().(*syscall.Stat_t); file != nil && ok && (uint64(st.Dev) != file.Device || st.Ino != file.Inode) {
		l.file = nil
	}
	return l, nil
}
