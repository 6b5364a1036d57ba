package metrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Path is where the metrics are, on the control socket too.
const Path = "/metrics"

// Listen opens a TCP socket for a Server at address, which is host:port. If follows is set, another supervisor that this one follows may
// still have the same address. It blocks while a host name is looked up, until ctx ends.
//
// The address has to be free, so that nobody shares it by accident. Only then it is opened to processes of the same user, by
// SO_REUSEPORT (socket(7)): a supervisor that follows this one opens it before it takes the service over, and so knows before that it can.
func Listen(ctx context.Context, address string, follows bool) (_ net.Listener, err error) {
	set := func(c syscall.RawConn) error {
		var setting error
		if err := c.Control(func(fd uintptr) { setting = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) }); err != nil {
			return err
		}
		return os.NewSyscallError("setsockopt SO_REUSEPORT", setting)
	}
	config := net.ListenConfig{}
	if follows {
		config.Control = func(_, _ string, c syscall.RawConn) error { return set(c) }
	}
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("metrics.listen: %w", err)
	}
	raw, err := l.(*net.TCPListener).SyscallConn()
	if err == nil {
		err = set(raw)
	}
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("metrics.listen: %w", err)
	}
	return l, nil
}

// A Server answers scrapes over TCP until Close.
type Server struct {
	http    http.Server
	serving sync.WaitGroup
}

// Serve answers on l, which it takes, in goroutines that Close waits for.
func Serve(l net.Listener, metrics http.Handler, log *slog.Logger) *Server {
	mux := http.NewServeMux()
	mux.Handle("GET "+Path, metrics)
	s := &Server{http: http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}}
	s.serving.Add(1)
	go func() {
		defer s.serving.Done()
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics are not told any more", "address", l.Addr().String(), "cause", err)
		}
	}()
	return s
}

// Close gives scrapes that are under way a moment, ends the rest, and returns when nothing is left. A nil server does nothing.
func (s *Server) Close() error {
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	s.serving.Wait()
	return err
}
