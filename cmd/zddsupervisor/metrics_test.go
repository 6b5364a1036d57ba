package main

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/internal/config"
	"github.com/zddsupervisor/zddsupervisor/internal/metrics"
)

// An address that is taken costs the service nothing: it is opened when it is free. It is an error only for a supervisor that follows
// another one, which has another address.
func TestMetricsAddressTaken(t *testing.T) {
	t.Parallel()
	holder, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	cfg := &config.Config{Name: "svc", RuntimeDirectory: t.TempDir()}
	cfg.Metrics.Listen = holder.Addr().String()
	if _, err := openMetrics(cfg, true, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "metrics.listen") {
		t.Errorf("one that follows goes on: %v", err)
	}
	var log bytes.Buffer
	told, err := openMetrics(cfg, false, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer told.close()
	if !strings.Contains(log.String(), cfg.Metrics.Listen) {
		t.Errorf("logged: %q", log.String())
	}
	told.every = 10 * time.Millisecond
	told.telling = slog.New(slog.DiscardHandler)
	told.serveTCP(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "told") }))
	holder.Close()
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		r, err := client.Get("http://" + cfg.Metrics.Listen + metrics.Path)
		if err == nil {
			body, _ := io.ReadAll(r.Body)
			r.Body.Close()
			if string(body) != "told" {
				t.Errorf("told %q", body)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the address that is free is not opened: %v", err)
		}
	}
	told.close()
	again, err := net.Listen("tcp", cfg.Metrics.Listen)
	if err != nil {
		t.Fatalf("it is open after close: %v", err)
	}
	defer again.Close()
	// Nor does close wait for an address that stays taken.
	waits, err := openMetrics(cfg, false, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	waits.serveTCP(http.NotFoundHandler())
	waits.close()
	waits.close()
}
