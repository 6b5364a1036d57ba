package systemd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

var (
	// ErrAddress is returned for a notify socket's address that cannot be used.
	ErrAddress = errors.New("not a usable notify address")

	// ErrField is returned for a field that would be misread or dropped by the
	// service manager.
	ErrField = errors.New("not a valid notification field")
)

// maxDatagram is how long a notification may be, in bytes: service managers
// drop longer ones whole.
const maxDatagram = 4096

// sendTimeout bounds how long a notification waits for room in the manager's
// queue. A manager that reloads its units reads nothing for some seconds, and a
// READY=1 that gave up on it at once would be lost.
const sendTimeout = 5 * time.Second

// A Notifier tells the service manager about this process, in the protocol of
// sd_notify(3). All methods may be called from several goroutines at once, and
// do nothing on a nil *Notifier, which stands for having no manager to tell.
//
// Each call sends one datagram. It blocks only while the manager's queue is
// full, 5 seconds at most, and then returns an error that wraps
// os.ErrDeadlineExceeded. Sending the same again does no harm. Where a manager
// refuses what it is told (see NotifyAccess= in systemd.service(5)), the sender
// is not told.
//
// A status is a line of text for people. What the protocol does not allow in it
// is replaced: newlines and other control characters by spaces, bytes that are
// not UTF-8 by U+FFFD; and one that is too long is cut and ends in "…". An empty
// status leaves the last one as it is.
type Notifier struct {
	addr    *net.UnixAddr
	timeout time.Duration
}

// NewNotifier returns a Notifier that sends to address, the value of
// NOTIFY_SOCKET: a path, or '@' and an abstract name. An empty address gives a
// nil *Notifier and no error. For any other address the error wraps ErrAddress.
func NewNotifier(address string) (*Notifier, error) {
	switch {
	case address == "":
		return nil, nil
	case strings.HasPrefix(address, "vsock"):
		return nil, fmt.Errorf("NOTIFY_SOCKET is %q, but only unix sockets are supported: %w", address, ErrAddress)
	case address[0] != '/' && address[0] != '@', address == "@":
		return nil, fmt.Errorf("NOTIFY_SOCKET is %q, neither an absolute path nor @ and a name: %w", address, ErrAddress)
	case len(strings.TrimPrefix(address, "@")) > maxSocketPath:
		return nil, fmt.Errorf("NOTIFY_SOCKET is %q, longer than the %d bytes a unix socket takes: %w", address, maxSocketPath, ErrAddress)
	}
	return &Notifier{
		addr:    &net.UnixAddr{Net: "unixgram", Name: address},
		timeout: sendTimeout,
	}, nil
}

// Ready says that start-up, or the reload that Reloading announced, is over.
// After Reloading it must follow in every outcome: systemd 253 to 258 wait for
// it for ever.
func (n *Notifier) Ready(status string) error {
	return n.send(status, daemon.SdNotifyReady)
}

// Reloading says that a reload has begun. It carries the time as well, without
// which systemd does not take it for the answer to its reload signal, and which
// it only looks for in the same datagram.
func (n *Notifier) Reloading(status string) error {
	return n.send(status, daemon.SdNotifyReloading, strings.TrimSpace(daemon.SdNotifyMonotonicUsec()))
}

// Stopping says that the process is about to end.
func (n *Notifier) Stopping(status string) error {
	return n.send(status, daemon.SdNotifyStopping)
}

// Status tells what the process is doing.
func (n *Notifier) Status(status string) error {
	return n.send(status)
}

// ExtendTimeout asks the manager to let the start, reload or stop that is under
// way run for d from now on. It never shortens the time that is left. Zero and
// less do nothing.
func (n *Notifier) ExtendTimeout(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	usec := (d + time.Microsecond - 1) / time.Microsecond
	return n.send("", "EXTEND_TIMEOUT_USEC="+strconv.FormatInt(int64(usec), 10))
}

// Watchdog says that the process is alive; see WatchdogEvery for how often.
func (n *Notifier) Watchdog() error {
	return n.send("", daemon.SdNotifyWatchdog)
}

// MainPID says that pid is the service's main process from now on. With
// NotifyAccess=main the manager no longer listens to this process afterwards.
func (n *Notifier) MainPID(pid int) error {
	return n.send("", "MAINPID="+strconv.Itoa(pid))
}

// Notify sends fields of the form KEY=VALUE in one datagram, so that the
// manager takes them together. No value but that of STATUS may have a newline or
// a NUL; the error for that wraps ErrField, as it does when the fields without
// STATUS are longer than the protocol allows.
func (n *Notifier) Notify(fields ...string) error {
	if n == nil {
		return nil
	}
	datagram, err := compose(fields)
	if err != nil || datagram == "" {
		return err
	}
	return n.write([]byte(datagram), nil)
}

// write sends one datagram with control messages.
func (n *Notifier) write(datagram, control []byte) error {
	// A socket for each message: one that stays connected would be bound to a
	// manager's socket that is gone once it has been made anew. A connected one
	// it must be, since only then does poll(2) wait for the receiver's queue.
	conn, err := net.DialUnix(n.addr.Net, nil, n.addr)
	if err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(n.timeout)); err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	if err := sendWith(conn, datagram, control); err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	return nil
}

// sendWith sends over a connected socket, which net.UnixConn only does without
// control messages.
func sendWith(conn *net.UnixConn, datagram, control []byte) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		for {
			failed = unix.Sendmsg(int(fd), datagram, control, nil, unix.MSG_NOSIGNAL)
			if failed != unix.EINTR {
				return failed != unix.EAGAIN
			}
		}
	})
	if err == nil && failed != nil {
		err = os.NewSyscallError("sendmsg", failed)
	}
	return err
}

// send sends fields and, unless it is empty, status.
func (n *Notifier) send(status string, fields ...string) error {
	if status != "" {
		fields = append(fields, statusKey+status)
	}
	return n.Notify(fields...)
}

const statusKey = "STATUS="

// compose makes one datagram of fields, and cuts the status to what is left of
// its length by the others.
func compose(fields []string) (string, error) {
	status, room := -1, maxDatagram
	for i, field := range fields {
		key, value, ok := strings.Cut(field, "=")
		switch {
		case !ok || key == "":
			return "", fmt.Errorf("%q is not KEY=VALUE: %w", field, ErrField)
		case strings.HasPrefix(field, statusKey) && status < 0:
			status = i
			room -= len(statusKey)
		case strings.ContainsAny(field, "\n\x00"):
			return "", fmt.Errorf("the value of %s has a newline or a NUL: %w", key, ErrField)
		default:
			room -= len(key) + len("=") + len(value)
		}
	}
	room -= max(0, len(fields)-1) // the newlines between them
	if room < 0 {
		return "", fmt.Errorf("more than %d bytes in one notification: %w", maxDatagram, ErrField)
	}
	if status >= 0 {
		fields = append([]string(nil), fields...)
		fields[status] = statusKey + truncate(printable(fields[status][len(statusKey):]), room)
	}
	return strings.Join(fields, "\n"), nil
}

// printable replaces what may not be in a status.
func printable(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r // Map has made utf8.RuneError of what is not UTF-8
	}, text))
}

// truncate cuts text to size bytes at most, between two characters, and shows
// where it did.
func truncate(text string, size int) string {
	const mark = "…"
	if len(text) <= size {
		return text
	}
	if size < len(mark) {
		return ""
	}
	end := size - len(mark)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}
