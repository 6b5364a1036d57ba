package fdpass

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"golang.org/x/sys/unix"
)

func restore(s Snapshot, find func(Part) *FD, log *slog.Logger) (_ Socket, err error) {
	if s.Spec.SelfBound() {
		return restoreOwn(s, find, log)
	}
	var seats []*seat
	defer func() {
		if err != nil {
			for _, seat := range seats {
				_ = seat.fd.Close() // the first error is the one that tells
			}
		}
	}()
	var at endpoint
	for _, part := range s.Parts {
		fd, e, err := restorePart(part, find)
		if err != nil && s.Mode == Steered && part.Generation != s.Target {
			// Nothing is wrong with that: it was told to stop, and nobody but the supervisor had the socket still.
			log.Info("a generation that new connections do not go to has no socket any more", "socket", s.Spec.FDName(), "generation", part.Generation, "cause", err)
			continue
		}
		if err != nil {
			log.Warn("a part of a socket is lost", "socket", s.Spec.FDName(), "generation", part.Generation, "cause", err)
			continue
		}
		at = e
		seats = append(seats, &seat{fd: fd, gen: part.Generation, foreign: part.Foreign})
	}
	if len(seats) == 0 {
		return nil, ErrLost
	}
	if s.Mode != Steered {
		sh := &shared{endpoint: at, log: log, foreign: seats[0].foreign, spec: s.Spec, fd: seats[0].fd}
		if s.File != nil {
			sh.file = &socketFile{path: s.Spec.Address, id: fileID{s.File.Device, s.File.Inode}}
		}
		if !sh.foreign {
			sh.watch()
		}
		return sh, nil
	}
	st := newSteered(s.Spec, seats[0].fd, at, log)
	st.seats, st.target = seats, s.Target
	if st.foreign() {
		if st.spec, err = likeness(s.Spec, seats[0].fd.Raw(), at); err != nil {
			return nil, err
		}
	}
	if st.seatOf(st.target) == nil {
		st.target = seats[len(seats)-1].gen
	}
	// A program is still there, but perhaps a newer one than the snapshot.
	return st, st.steer()
}

// restorePart returns a descriptor of a part, that the caller owns, and where it
// is.
func restorePart(part Part, find func(Part) *FD) (_ *FD, e endpoint, err error) {
	found := find(part)
	if found == nil {
		return nil, e, ErrLost
	}
	id, err := PartID(found)
	if err != nil {
		return nil, e, err
	}
	if id != part.ID {
		return nil, e, fmt.Errorf("the descriptor is that of another socket: %w", ErrLost)
	}
	fd, err := found.Dup()
	if err != nil {
		return nil, e, err
	}
	if e, err = inspect(fd.Raw()); err != nil {
		_ = fd.Close()
		return nil, e, err
	}
	return fd, e, nil
}

// PartID returns the Part's ID that a socket has, or would have. fd is borrowed.
func PartID(fd *FD) (string, error) {
	n, err := cookie(fd.Raw())
	return partID(n), err
}

// partOf describes the kernel socket raw, which is borrowed.
func partOf(raw int) (Part, error) {
	n, err := cookie(raw)
	if err != nil {
		return Part{}, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(raw, &st); err != nil {
		return Part{}, os.NewSyscallError("fstat", err)
	}
	return Part{ID: partID(n), Inode: st.Ino}, nil
}

func (sh *shared) Snapshot() (Snapshot, error) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	raw := sh.fd.Raw()
	if raw < 0 {
		return Snapshot{}, os.ErrClosed
	}
	part, err := partOf(raw)
	part.Foreign = sh.foreign
	s := Snapshot{Spec: sh.spec, Mode: Shared, Parts: []Part{part}}
	if sh.file != nil {
		s.File = &FileIdentity{sh.file.id.device, sh.file.id.inode}
	}
	return s, err
}

func (st *steered) Snapshot() (Snapshot, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.open(); err != nil {
		return Snapshot{}, err
	}
	s := Snapshot{Spec: st.asked, Mode: Steered, Target: st.target}
	for _, seat := range st.seats {
		part, err := partOf(seat.fd.Raw())
		if err != nil {
			return s, err
		}
		part.Generation, part.Foreign = seat.gen, seat.foreign
		s.Parts = append(s.Parts, part)
	}
	return s, nil
}

func (sh *shared) EachPart(do func(id string, fd *FD) error) error {
	return sh.use(func(raw int) error {
		if sh.foreign {
			return nil
		}
		return eachPart(sh.fd, do)
	})
}

func (st *steered) EachPart(do func(id string, fd *FD) error) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.open(); err != nil {
		return err
	}
	for _, seat := range st.seats {
		if seat.foreign {
			continue
		}
		if err := eachPart(seat.fd, do); err != nil {
			return err
		}
	}
	return nil
}

func eachPart(fd *FD, do func(id string, fd *FD) error) error {
	id, err := PartID(fd)
	if err != nil {
		return err
	}
	return do(id, fd)
}

func (sh *shared) Release() error {
	sh.guard.close()
	sh.mu.Lock()
	sh.file = nil
	sh.mu.Unlock()
	return sh.Close()
}

func (sh *shared) Relays(context.Context) {}

func (st *steered) Release() error { return st.closeSeats() }

func (st *steered) Relays(ctx context.Context) { st.forwarder.wait(ctx) }

// RemoveFile removes the file of a unix path that was bound, if it is still that
// socket's: for when nobody has the socket any more.
func RemoveFile(s Snapshot) error {
	if s.File == nil {
		return nil
	}
	file := &socketFile{path: s.Spec.Address, id: fileID{s.File.Device, s.File.Inode}}
	return file.remove()
}

// Discard takes fd and ends the listening socket behind it for every process that
// has it: it leaves its group, and what waits in it is reset.
func Discard(fd *FD) error {
	err := unix.Shutdown(fd.Raw(), unix.SHUT_RDWR)
	if err == unix.ENOTCONN || err == unix.ENOTSOCK { // a datagram socket, or what is none at all
		err = nil
	}
	return errors.Join(os.NewSyscallError("shutdown", err), fd.Close())
}
