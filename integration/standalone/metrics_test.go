package standalone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
)

// freeAddress is a loopback address of this test's own with a port that is free there.
func freeAddress(t *testing.T) string {
	t.Helper()
	pid := os.Getpid()
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 100+pid>>16&0x7f, pid>>8&0xff, pid&0xff))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// scrape reads the metrics over a connection of its own; path is that of a control socket, or "" for TCP.
func scrape(address, path string) (string, error) {
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		if path != "" {
			return d.DialContext(ctx, "unix", path)
		}
		return d.DialContext(ctx, "tcp", address)
	}}}
	r, err := client.Get("http://" + address + "/metrics")
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = errors.New(r.Status)
	}
	return string(body), err
}

// What a supervisor tells Prometheus is what has happened, on its control socket and over TCP; an address that is taken costs
// another service nothing, and a reload does not change it.
func TestMetrics(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	listen := func(c configuration) configuration { return c.with(fmt.Sprintf("[metrics]\nlisten = %q\n", address)) }
	s := start(t, listen(tested("v0")))
	listen(tested("v1")).write(t, s.dir)
	s.mustReload()
	listen(tested("v2", "-never-ready").with("[ready]\ntimeout = \"200ms\"\n")).write(t, s.dir)
	if status, _, _ := s.reload(); status != 1 {
		t.Errorf("a bad version: status %d", status)
	}
	s.settled()
	for _, path := range []string{"", s.control()} {
		text, err := scrape(address, path)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{
			`zddsupervisor_live 1`, `zddsupervisor_live_generation 2`, `zddsupervisor_handoffs_total{outcome="done"} 1`,
			`zddsupervisor_handoffs_total{outcome="failed"} 1`, `zddsupervisor_starts_total{outcome="done"} 1`, `zddsupervisor_last_handoff_failed 1`,
			`zddsupervisor_generations_ended_total{role="draining"} 1`, `zddsupervisor_generations_ended_total{role="failed"} 1`,
			`zddsupervisor_handoff_step_duration_seconds_count{step="ready"} 3`, `zddsupervisor_socket_queue_length{socket="main"} 0`,
			`zddsupervisor_socket_shut_down{socket="main"} 0`,
		} {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("%q is not in\n%s", line, text)
			}
		}
		if promtool, err := exec.LookPath("promtool"); err == nil {
			cmd := exec.Command(promtool, "check", "metrics")
			cmd.Stdin = strings.NewReader(text)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("promtool: %v\n%s", err, out)
			}
		} else if os.Getenv("CI") == "true" {
			t.Error(err)
		}
	}

	other := start(t, listen(tested("v0")))
	if !strings.Contains(other.log.String(), "metrics are not told over TCP, until their address can be opened") {
		t.Errorf("with the address of another supervisor:\n%s", other.log)
	}
	if text, err := scrape(address, other.control()); err != nil || !strings.Contains(text, "zddsupervisor_live 1\n") {
		t.Errorf("its control socket tells, %v:\n%s", err, text)
	}
	tested("v3").write(t, s.dir)
	if status, _, stderr := s.reload(); status != 1 || !strings.Contains(stderr, "metrics.listen cannot be changed by a reload") {
		t.Errorf("another address: status %d, %s", status, stderr)
	}
}

// A supervisor that is replaced leaves its address to the one that follows it, and is scraped all along.
func TestMetricsSurviveUpgrade(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	r := startReign(t, tested("v0").with(fmt.Sprintf("[metrics]\nlisten = %q\n[upgrade]\ntimeout = \"60s\"\n", address)))
	before := r.settled()
	began := func() string {
		text, err := scrape(address, "")
		switch {
		case errors.Is(err, unix.ECONNREFUSED):
			t.Errorf("a scrape was refused: %v", err)
		case err != nil: // as one that is cut off with the supervisor that it has come to
			t.Logf("a scrape failed: %v", err)
			return ""
		}
		return regexp.MustCompile(`(?m)^zddsupervisor_start_time_seconds (.*)$`).FindString(text)
	}
	was := began()
	for range 3 {
		done := make(chan error, 1)
		go func() {
			_, err := r.client.Upgrade(context.Background())
			done <- err
		}()
		for over := false; !over; {
			began()
			select {
			case err := <-done:
				if err != nil {
					t.Fatal(err)
				}
				over = true
			default:
			}
		}
		now := was
		for end := time.Now().Add(20 * time.Second); (now == was || now == "") && time.Now().Before(end); {
			now = began()
		}
		if now == was {
			t.Error("the one that follows is not told of")
		}
		was = now
	}
	if now := live(r.until("a live generation", func(st *control.Status) bool { return live(st) != nil })); now.PID != before.PID {
		t.Error("the service was started again")
	}
	installScript(t, "#!/bin/sh\nexit 1\n", r.path)
	if _, err := r.client.Upgrade(t.Context()); err == nil {
		t.Error("a broken program has followed")
	}
	if began() == "" {
		t.Error("after an upgrade that has failed, nothing is told any more")
	}
}
