package fdpass

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// A listener is a TCP socket that listens.
type listener struct {
	addr  netip.AddrPort
	inode uint64 // 0 for one that no process has
	uid   uint32
}

// listenersOn returns the TCP sockets of this network namespace that listen on a
// port, over sock_diag(7).
func listenersOn(port uint16) (all []listener, err error) {
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		err := diag(unix.NLM_F_DUMP, inetRequest(family, port, 1<<tcpListen, 0), func(payload []byte) error {
			l, err := readListener(payload)
			if err == nil && l.addr.Port() == port {
				all = append(all, l)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// readListener reads a struct inet_diag_msg.
func readListener(payload []byte) (l listener, err error) {
	if len(payload) < inetReplySize {
		return l, errShortMessage
	}
	id := payload[4:]
	addr := netip.AddrFrom4([4]byte(id[4:8]))
	if payload[0] == unix.AF_INET6 {
		addr = netip.AddrFrom16([16]byte(id[4:20]))
	}
	return listener{
		addr:  netip.AddrPortFrom(addr, binary.BigEndian.Uint16(id)),
		uid:   native.Uint32(payload[64:]),
		inode: uint64(native.Uint32(payload[68:])),
	}, nil
}
