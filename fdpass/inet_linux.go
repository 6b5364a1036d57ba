package fdpass

import (
	"errors"
	"log/slog"
)

// openInet opens the socket of an internet spec anew, in the mode that it asks
// for, or in shared mode where the kernel cannot steer.
func openInet(s Spec, log *slog.Logger) (_ Socket, err error) {
	fd, err := s.bindInet(log)
	if err != nil {
		return nil, err
	}
	defer closeOnError(fd, &err)
	steer := s.mode() == Steered
	if steer {
		if cause := found(fd.Raw()); cause != nil {
			steer = false
			reportFallback(s, cause, log)
		}
	}
	if err := s.listen(fd.Raw()); err != nil {
		return nil, err
	}
	e, err := inspect(fd.Raw())
	if err != nil {
		return nil, err
	}
	e.reportBacklog(s, fd.Raw(), log)
	if steer {
		return newSteered(s, fd, e, log), nil
	}
	sh := &shared{spec: s, log: log, fd: fd, endpoint: e}
	sh.watch()
	return sh, nil
}

// adopt makes a Socket of a duplicate of fd, which is borrowed and which systemd
// passed in: steered where it can be, or where that was asked for, else shared.
func adopt(s Spec, fd *FD, log *slog.Logger) (Socket, error) {
	if s.Mode != Shared {
		st, cause := adoptSteered(s, fd, log)
		if cause == nil {
			return st, nil
		}
		// Nobody has to be told of a plain socket, unless they asked for more.
		if s.Mode == Steered || !errors.Is(cause, errPlain) {
			reportFallback(s, cause, log)
		}
	}
	return adoptShared(s, fd, log)
}

// reportFallback tells the log that a socket is shared and why.
func reportFallback(s Spec, cause error, log *slog.Logger) {
	log.Warn("the socket cannot be steered, and is shared by the generations instead: a service may lose connections that it has accepted when it is told to stop",
		"socket", s.FDName(), "cause", cause)
}
