package fdpass

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// This file asks the kernel about sockets over netlink, see sock_diag(7). It
// needs no privilege and sees the sockets of our own network namespace.

// Sizes of the fixed parts of the messages, and values of linux/unix_diag.h
// that x/sys does not have.
const (
	unixRequestSize = 24 // struct unix_diag_req
	unixReplySize   = 16 // struct unix_diag_msg
	inetRequestSize = 56 // struct inet_diag_req_v2
	inetReplySize   = 72 // struct inet_diag_msg

	showName = 1 << 0 // UDIAG_SHOW_NAME
	showVFS  = 1 << 1 // UDIAG_SHOW_VFS
	showRQ   = 1 << 4 // UDIAG_SHOW_RQLEN

	attrName = 0 // UNIX_DIAG_NAME
	attrVFS  = 1 // UNIX_DIAG_VFS
	attrRQ   = 4 // UNIX_DIAG_RQLEN

	anyCookie = ^uint32(0) // INET_DIAG_NOCOOKIE

	tcpSynRecv    = 3  // TCP_SYN_RECV
	tcpNewSynRecv = 12 // TCP_NEW_SYN_RECV, what a handshake is while the listener has it
)

// errShortMessage is netlink that does not hold what its header promises.
var errShortMessage = errors.New("short netlink message")

var native = binary.NativeEndian

// diag sends one request and calls each with the payload of every answer. It
// blocks only as long as the kernel takes to look through its tables.
func diag(flags uint16, request []byte, each func(payload []byte) error) error {
	raw, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return os.NewSyscallError("socket NETLINK_SOCK_DIAG", err)
	}
	defer unix.Close(raw)
	message := make([]byte, unix.NLMSG_HDRLEN, unix.NLMSG_HDRLEN+len(request))
	native.PutUint32(message[0:], uint32(unix.NLMSG_HDRLEN+len(request)))
	native.PutUint16(message[4:], unix.SOCK_DIAG_BY_FAMILY)
	native.PutUint16(message[6:], flags|unix.NLM_F_REQUEST)
	message = append(message, request...)
	if err := unix.Sendto(raw, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("sendto NETLINK_SOCK_DIAG", err)
	}
	buf := make([]byte, 32<<10) // the kernel fills no larger ones for a dump
	for {
		n, _, err := unix.Recvfrom(raw, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return os.NewSyscallError("recvfrom NETLINK_SOCK_DIAG", err)
		}
		done, err := readMessages(buf[:n], each)
		if done || err != nil {
			return err
		}
		if flags&unix.NLM_F_DUMP == 0 {
			return nil
		}
	}
}

// readMessages takes one datagram of netlink messages apart. It returns true
// once the last one of the answer is among them.
func readMessages(b []byte, each func(payload []byte) error) (done bool, err error) {
	for len(b) >= unix.NLMSG_HDRLEN {
		size := int(native.Uint32(b))
		if size < unix.NLMSG_HDRLEN || size > len(b) {
			return false, errShortMessage
		}
		payload := b[unix.NLMSG_HDRLEN:size]
		switch native.Uint16(b[4:]) {
		case unix.NLMSG_DONE:
			return true, nil
		case unix.NLMSG_ERROR:
			if len(payload) < 4 {
				return false, errShortMessage
			}
			if code := int32(native.Uint32(payload)); code != 0 {
				return true, os.NewSyscallError("sock_diag", unix.Errno(-code))
			}
			return true, nil
		case unix.SOCK_DIAG_BY_FAMILY:
			if err := each(payload); err != nil {
				return false, err
			}
		}
		b = b[min(align4(size), len(b)):]
	}
	return false, nil
}

// attributes calls each with the type and value of every attribute in b.
func attributes(b []byte, each func(kind uint16, value []byte)) error {
	for len(b) >= unix.SizeofRtAttr {
		size := int(native.Uint16(b))
		if size < unix.SizeofRtAttr || size > len(b) {
			return errShortMessage
		}
		each(native.Uint16(b[2:]), b[unix.SizeofRtAttr:size])
		b = b[min(align4(size), len(b)):]
	}
	return nil
}

func align4(n int) int { return (n + 3) &^ 3 }

// unixRequest is a struct unix_diag_req for the socket with the given inode, or
// for all if it is 0.
func unixRequest(inode, show uint32) []byte {
	b := make([]byte, unixRequestSize)
	b[0] = unix.AF_UNIX
	native.PutUint32(b[4:], ^uint32(0)) // every state
	native.PutUint32(b[8:], inode)
	native.PutUint32(b[12:], show)
	native.PutUint32(b[16:], anyCookie)
	native.PutUint32(b[20:], anyCookie)
	return b
}

// unixQueue returns how many connections wait in the listening unix socket raw,
// which is borrowed, and how many may.
func unixQueue(raw int) (queue, limit int, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(raw, &st); err != nil {
		return Unknown, Unknown, os.NewSyscallError("fstat", err)
	}
	queue, limit = Unknown, Unknown
	err = diag(0, unixRequest(uint32(st.Ino), showRQ), func(payload []byte) (err error) {
		queue, limit, err = readUnixQueue(payload)
		return err
	})
	return queue, limit, err
}

func readUnixQueue(payload []byte) (queue, limit int, err error) {
	queue, limit = Unknown, Unknown
	if len(payload) < unixReplySize {
		return queue, limit, errShortMessage
	}
	err = attributes(payload[unixReplySize:], func(kind uint16, value []byte) {
		if kind == attrRQ && len(value) >= 8 { // struct unix_diag_rqlen
			queue, limit = int(native.Uint32(value)), int(native.Uint32(value[4:]))
		}
	})
	return queue, limit, err
}

// unixBound reports whether any socket of our network namespace is bound to
// this file, which has the given path.
func unixBound(file fileID, path string) (bool, error) {
	found := false
	err := diag(unix.NLM_F_DUMP, unixRequest(0, showName|showVFS), func(payload []byte) error {
		same, err := isBoundTo(payload, file, path)
		found = found || same
		return err
	})
	return found, err
}

// isBoundTo reports whether a struct unix_diag_msg is about a socket on file.
//
// The kernel gives 32 bits of the inode number, and a device number that
// differs from stat's on file systems that make theirs up (overlayfs, btrfs);
// there the path that was bound has to do.
func isBoundTo(payload []byte, file fileID, path string) (bool, error) {
	if len(payload) < unixReplySize {
		return false, errShortMessage
	}
	var sameInode, sameDevice, sameName bool
	err := attributes(payload[unixReplySize:], func(kind uint16, value []byte) {
		switch {
		case kind == attrVFS && len(value) >= 8: // struct unix_diag_vfs
			sameInode = native.Uint32(value) == uint32(file.inode)
			sameDevice = native.Uint32(value[4:]) == unix.Major(file.device)<<20|unix.Minor(file.device)
		case kind == attrName:
			sameName = string(value) == path || string(value) == path+"\x00"
		}
	})
	return sameInode && (sameDevice || sameName), err
}

// openHandshakes returns how many handshakes are under way to the TCP port of
// the listening socket raw, which is borrowed. Of sockets that share the port
// on other addresses of the machine it counts theirs too, which does not
// matter to who waits for the end of all.
func openHandshakes(raw int) (int, error) {
	sa, err := unix.Getsockname(raw)
	if err != nil {
		return Unknown, os.NewSyscallError("getsockname", err)
	}
	// A handshake has its listener's family, also where the packets are IPv4.
	var family uint8
	var port int
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		family, port = unix.AF_INET, sa.Port
	case *unix.SockaddrInet6:
		family, port = unix.AF_INET6, sa.Port
	default:
		return Unknown, fmt.Errorf("no TCP address: %T", sa)
	}
	request := inetRequest(family, uint16(port), 1<<tcpSynRecv|1<<tcpNewSynRecv, 0)
	count := 0
	err = diag(unix.NLM_F_DUMP, request, func(payload []byte) error {
		if len(payload) < inetReplySize {
			return errShortMessage
		}
		count++
		return nil
	})
	return count, err
}
