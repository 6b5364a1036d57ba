package fdpass

import (
	"errors"
	"log/slog"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// newSocket makes a close-on-exec socket for s, which the caller owns.
// O_NONBLOCK is decided here for good: no child has the open file description
// yet.
//
// Sockets are made here and not by package net because that makes MPTCP ones,
// sets O_NONBLOCK, and hands them to the runtime's poller.
func (s Spec) newSocket(family int) (*FD, error) {
	kind := unix.SOCK_STREAM
	switch {
	case s.udp(), s.Network == UnixGram:
		kind = unix.SOCK_DGRAM
	case s.Network == UnixPacket:
		kind = unix.SOCK_SEQPACKET
	}
	if s.NonBlocking {
		kind |= unix.SOCK_NONBLOCK
	}
	raw, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	return NewFD(raw), nil
}

// bindInet returns a new internet socket, bound and not listening yet, that the
// caller owns.
func (s Spec) bindInet(log *slog.Logger) (*FD, error) {
	targets, err := s.targets()
	if err != nil {
		return nil, err
	}
	for len(targets) > 1 {
		fd, err := s.bind(targets[0], log)
		if err == nil || !familyMissing(err) {
			return fd, err
		}
		log.Info("the kernel has no IPv6; the socket is IPv4 only", "socket", s.FDName())
		targets = targets[1:]
	}
	return s.bind(targets[0], log)
}

// familyMissing reports whether the kernel does not know the address family, or
// has it switched off.
func familyMissing(err error) bool {
	return errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EADDRNOTAVAIL)
}

// bind returns a new socket bound to t, with all its options, that the caller
// owns.
func (s Spec) bind(t target, log *slog.Logger) (fd *FD, err error) {
	sa, family, err := t.sockaddr()
	if err != nil {
		return nil, err
	}
	fd, err = s.newSocket(family)
	if err != nil {
		return nil, err
	}
	defer closeOnError(fd, &err)
	if err := s.setOptions(fd.Raw(), t); err != nil {
		return nil, err
	}
	if err := s.setBuffers(fd.Raw(), log); err != nil {
		return nil, err
	}
	if err := unix.Bind(fd.Raw(), sa); err != nil {
		return nil, os.NewSyscallError("bind", err)
	}
	return fd, nil
}

// listen starts to take connections on the bound socket raw, or changes how
// many may wait. Datagram sockets do not listen.
func (s Spec) listen(raw int) error {
	if !s.listens() {
		return nil
	}
	backlog := s.Backlog
	if backlog == 0 {
		backlog = math.MaxInt32 // the kernel takes net.core.somaxconn, see listen(2)
	}
	return os.NewSyscallError("listen", unix.Listen(raw, backlog))
}

// closeOnError closes fd if *err, the result of the function that defers it, is
// an error.
func closeOnError(fd *FD, err *error) {
	if *err != nil {
		_ = fd.Close() // the first error is the one that tells
	}
}
