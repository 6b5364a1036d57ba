package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// headerLimit bounds the wait for a request. It is more than a request takes that is lost again and again on a bad wire: net/http closes
// the connection then without an answer.
const headerLimit = 2 * time.Minute

// plain is what every Go service does: net/http, and Shutdown when stopped.
type plain struct {
	handler *handler
	server  *http.Server
	stopped chan struct{}
	served  chan error
}

func serveHTTP(o options, h *handler, l net.Listener) *plain {
	h.ending = make(chan struct{})
	s := &plain{handler: h, server: &http.Server{Handler: h, ReadHeaderTimeout: headerLimit}, stopped: make(chan struct{}), served: make(chan error, 1)}
	s.server.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateNew {
			h.journal.connection(c.RemoteAddr().String())
		}
	}
	go func() {
		if o.serveAfter > 0 {
			select {
			case <-time.After(o.serveAfter):
			case <-s.stopped: // Shutdown may not have begun by now, and then Serve would accept
				s.served <- http.ErrServerClosed
				return
			}
		}
		s.served <- s.server.Serve(l)
	}()
	return s
}

func (s *plain) finish() {
	close(s.stopped)
	close(s.handler.ending)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "testservice: shut down:", err)
	}
	<-s.served
	s.handler.upgraded.Wait()
}
