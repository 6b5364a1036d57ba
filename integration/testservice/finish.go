package main

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// requestLimit bounds the wait for the request on a new connection.
	requestLimit = 10 * time.Second
	// idleLimit bounds how long a kept connection may still bring another request once the service is stopping.
	idleLimit = time.Second
	// queueLimit bounds how long a stopping service empties the accept queue, which others may go on to fill.
	queueLimit = time.Second
)

// listener is what net.FileListener returns for stream and sequenced-packet sockets.
type listener interface {
	net.Listener
	SetDeadline(time.Time) error
	SyscallConn() (syscall.RawConn, error)
}

// finishing is the server of a service that finishes what it accepted: a connection that accept(2) has returned is answered, whenever
// its request comes.
type finishing struct {
	o        options
	handler  *handler
	listener listener
	stopping atomic.Bool
	accepted sync.WaitGroup // connections, and the loop that accepts
}

func serveFinishing(o options, h *handler, l listener) *finishing {
	s := &finishing{o: o, handler: h, listener: l}
	s.accepted.Add(1)
	go func() {
		defer s.accepted.Done()
		s.accept()
	}()
	return s
}

func (s *finishing) accept() {
	for {
		time.Sleep(s.o.acceptDelay)
		c, err := s.listener.Accept()
		switch {
		case err == nil:
			s.serve(c)
		case errors.Is(err, os.ErrDeadlineExceeded):
			s.emptyQueue()
			return
		case errors.Is(err, unix.ECONNABORTED):
		default:
			// A listener that another process shut down; there is nothing more to accept.
			return
		}
	}
}

// emptyQueue accepts what waits in the queue, until there is nothing.
func (s *finishing) emptyQueue() {
	raw, err := s.listener.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		for end := time.Now().Add(queueLimit); time.Now().Before(end); {
			n, _, err := unix.Accept4(int(fd), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			if err == unix.EINTR || err == unix.ECONNABORTED {
				continue
			}
			if err != nil {
				return
			}
			f := os.NewFile(uintptr(n), "connection")
			c, err := net.FileConn(f)
			f.Close()
			if err == nil {
				s.serve(c)
			}
		}
	})
}

// serve answers the requests of a connection in a goroutine that accepted waits for.
func (s *finishing) serve(c net.Conn) {
	s.accepted.Add(1)
	go func() {
		defer s.accepted.Done()
		defer c.Close()
		// A sequenced packet must be read in one piece.
		br := bufio.NewReaderSize(c, 64<<10)
		for first := true; ; first = false {
			if !s.await(c, br, first) {
				return
			}
			req, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			req.RemoteAddr = c.RemoteAddr().String()
			last := !s.o.keepAlive || req.Close || s.stopping.Load()
			if s.handler.answer(c, req, last) != nil || last {
				return
			}
		}
	}()
}

// await blocks until the next request begins. It looks up now and then to see whether the service is stopping, after which an
// idle connection is given up, but not one that has not been answered at all.
func (s *finishing) await(c net.Conn, br *bufio.Reader, first bool) bool {
	for waited := time.Duration(0); waited < requestLimit; waited += idleLimit {
		stopping := s.stopping.Load()
		if err := c.SetReadDeadline(time.Now().Add(idleLimit)); err != nil {
			return false
		}
		_, err := br.Peek(1)
		if err == nil {
			return c.SetReadDeadline(time.Now().Add(requestLimit)) == nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || stopping && !first {
			return false
		}
	}
	return false
}

func (s *finishing) finish() {
	s.stopping.Store(true)
	if s.o.shutdownSockets {
		if raw, err := s.listener.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
		}
	}
	_ = s.listener.SetDeadline(time.Now())
	s.accepted.Wait()
	s.listener.Close()
}
