package main

import (
	"log/slog"
	"net"

	"github.com/zddsupervisor/zddsupervisor/internal/config"
	"github.com/zddsupervisor/zddsupervisor/internal/metrics"
)

// told is what a supervisor tells Prometheus, on its control socket and, where that is asked for, over TCP.
type told struct {
	metrics  *metrics.Metrics
	listener net.Listener // until it is served; nil for none
	server   *metrics.Server
}

// openMetrics opens what the configuration asks for. follows says that another supervisor may still have the address.
func openMetrics(cfg *config.Config, follows bool) (*told, error) {
	t := &told{metrics: metrics.New(cfg.Name, version())}
	if cfg.Metrics.Listen == "" {
		return t, nil
	}
	var err error
	t.listener, err = metrics.Listen(cfg.Metrics.Listen, follows)
	return t, err
}

// serve begins to tell of a supervisor whose control socket is not served yet.
func (t *told) serve(supervisor *incumbent, log *slog.Logger) {
	handler := t.metrics.Handler(supervisor.Supervisor)
	supervisor.server.Handle("GET "+metrics.Path, handler)
	if t.listener != nil {
		log.Info("telling metrics", "address", t.listener.Addr().String())
		t.server, t.listener = metrics.Serve(t.listener, handler, log), nil
	}
}

// close ends it, and returns when nobody is told anything over TCP any more. It may be called again.
func (t *told) close() {
	if t.listener != nil {
		t.listener.Close()
	}
	t.server.Close() // an error would be that a scrape was cut off
	t.listener, t.server = nil, nil
}
