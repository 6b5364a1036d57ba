package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/zddsupervisor/zddsupervisor/internal/config"
	"github.com/zddsupervisor/zddsupervisor/internal/metrics"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// metricsRetry is the time between two tries to open an address that could not be opened.
const metricsRetry = 5 * time.Second

// told is what a supervisor tells Prometheus, on its control socket and, where that is asked for, over TCP.
type told struct {
	metrics  *metrics.Metrics
	address  string        // to be told at; "" for none
	every    time.Duration // between two tries to open that
	listener net.Listener  // until it is served; nil for none

	stop    context.CancelFunc // of the goroutine that tries; nil for none
	trying  sync.WaitGroup
	server  *metrics.Server // that goroutine's, as long as there is one
	telling *slog.Logger
}

// openMetrics opens what the configuration asks for. follows says that another supervisor may still have the address.
//
// An address that cannot be opened is an error only where another supervisor goes on that tells more than this one would. Else
// the service needs a supervisor more than anybody needs metrics: serve tries again.
func openMetrics(cfg *config.Config, follows bool, log *slog.Logger) (*told, error) {
	t := &told{metrics: metrics.New(cfg.Name, version()), address: cfg.Metrics.Listen, every: metricsRetry, telling: log}
	if t.address == "" {
		return t, nil
	}
	var err error
	t.listener, err = metrics.Listen(context.Background(), t.address, follows)
	switch {
	case err == nil:
		return t, nil
	case follows && addressBefore(cfg) != t.address:
		return nil, err
	}
	t.listener = nil
	log.Error("metrics are not told over TCP, until their address can be opened", "address", t.address, "cause", err)
	return t, nil
}

// addressBefore is where the supervisor before this one wants to tell metrics, as far as it has written that down.
func addressBefore(cfg *config.Config) string {
	saved, err := upgrade.LoadSaved(statePath(cfg))
	if err != nil || saved == nil {
		return ""
	}
	var was config.Config
	if json.Unmarshal(saved.LivePlan(), &was) != nil {
		return ""
	}
	return was.Metrics.Listen
}

// serve begins to tell of a supervisor whose control socket is not served yet.
func (t *told) serve(supervisor *incumbent) {
	handler := t.metrics.Handler(supervisor.Supervisor)
	supervisor.server.Handle("GET "+metrics.Path, handler)
	t.serveTCP(handler)
}

// serveTCP begins to tell over TCP, if that is asked for: now, or when the address can be opened. It does not block.
func (t *told) serveTCP(handler http.Handler) {
	switch {
	case t.listener != nil:
		t.answer(t.listener, handler)
		t.listener = nil
	case t.address != "":
		var ctx context.Context
		ctx, t.stop = context.WithCancel(context.Background())
		t.trying.Add(1)
		go func() {
			defer t.trying.Done()
			t.try(ctx, handler)
		}()
	}
}

// answer serves on l, which it takes.
func (t *told) answer(l net.Listener, handler http.Handler) {
	t.telling.Info("telling metrics", "address", l.Addr().String())
	t.server = metrics.Serve(l, handler, t.telling)
}

// try tries to open the address until it succeeds or ctx ends. Whoever this supervisor follows has had the address no more than it has.
func (t *told) try(ctx context.Context, handler http.Handler) {
	tick := time.NewTicker(t.every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if l, err := metrics.Listen(ctx, t.address, false); err == nil {
			t.answer(l, handler)
			return
		}
	}
}

// close ends it, and returns when nobody is told anything over TCP any more. It may be called again.
func (t *told) close() {
	if t.stop != nil {
		t.stop()
	}
	t.trying.Wait()
	if t.listener != nil {
		t.listener.Close()
	}
	t.server.Close() // an error would be that a scrape was cut off
	t.listener, t.server = nil, nil
}
