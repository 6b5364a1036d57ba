package succession

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// message is one packet of the channel.
type message struct {
	Prepared int           `json:"prepared,omitempty"` // the successor's process number
	Error    string        `json:"error,omitempty"`    // why the successor cannot take over; the last packet
	Names    []string      `json:"names,omitempty"`    // of the descriptors that come with the packet
	Go       bool          `json:"go,omitempty"`
	Withdraw string        `json:"withdraw,omitempty"` // why nothing comes of it; the last packet
	Main     bool          `json:"main,omitempty"`
	Watchdog time.Duration `json:"watchdog_ns,omitempty"` // with Go: how often the service manager wants to hear of the supervisor

	ControlFile *fdpass.FileIdentity `json:"control_file,omitempty"` // with Go: see Estate
}

const (
	// maxMessage bounds the size of a packet, in bytes.
	maxMessage = 64 << 10
	// maxRights is how many descriptors go with a packet; the kernel takes 253, see unix(7).
	maxRights = 64
)

// newChannel returns both ends of a channel. The caller closes them.
func newChannel() (ours *net.UnixConn, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	theirs = os.NewFile(uintptr(pair[1]), channelName)
	ours, err = connOf(os.NewFile(uintptr(pair[0]), channelName))
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

// connOf makes a connection of f, which it takes.
func connOf(f *os.File) (*net.UnixConn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, errors.New("the channel to the other supervisor is no unix socket")
	}
	return conn, nil
}

// send sends a packet, with duplicates of fds, which are borrowed.
func send(c *net.UnixConn, m message, fds ...*fdpass.FD) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		numbers := make([]int, len(fds))
		for i, fd := range fds {
			numbers[i] = fd.Raw()
		}
		rights = unix.UnixRights(numbers...)
	}
	_, _, err = c.WriteMsgUnix(text, rights, nil)
	return err
}

// receive blocks until a packet comes. The caller owns what came with it. The error is io.EOF if the other process has
// ended.
func receive(c *net.UnixConn) (m message, fds []*fdpass.FD, err error) {
	text := make([]byte, maxMessage)
	oob := make([]byte, unix.CmsgSpace(maxRights*4))
	n, oobn, flags, _, err := c.ReadMsgUnix(text, oob)
	if err != nil {
		return m, nil, err
	}
	if oobn > 0 {
		controls, err := unix.ParseSocketControlMessage(oob[:oobn])
		if err != nil {
			return m, nil, os.NewSyscallError("recvmsg", err)
		}
		for i := range controls {
			numbers, err := unix.ParseUnixRights(&controls[i])
			if err != nil {
				continue
			}
			for _, raw := range numbers {
				fds = append(fds, fdpass.NewFD(raw))
			}
		}
	}
	switch {
	case n == 0:
		err = io.EOF
	case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		err = errors.New("a packet of the other supervisor was cut off")
	default:
		if err = json.Unmarshal(text[:n], &m); err == nil && len(m.Names) != len(fds) {
			err = fmt.Errorf("a packet of the other supervisor names %d descriptors and has %d", len(m.Names), len(fds))
		}
	}
	if err != nil {
		for _, fd := range fds {
			fd.Close()
		}
		return message{}, nil, err
	}
	return m, fds, nil
}
