package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// plain is what every Go service does: net/http, and Shutdown when stopped.
type plain struct {
	server *http.Server
	served chan error
}

func serveHTTP(h *handler, l net.Listener) *plain {
	s := &plain{server: &http.Server{Handler: h, ReadHeaderTimeout: requestLimit}, served: make(chan error, 1)}
	go func() { s.served <- s.server.Serve(l) }()
	return s
}

func (s *plain) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "testservice: shut down:", err)
	}
	<-s.served
}
