package drill

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// listen listens on a free port.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// versioned is a service that says which version it is.
type versioned struct {
	version atomic.Int64
	work    time.Duration
}

func (v *versioned) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Version", fmt.Sprint("v", v.version.Load()))
	time.Sleep(v.work)
	fmt.Fprintln(w, "hello")
}

// next is a reload that makes a new version without disturbing anybody.
func (v *versioned) next(context.Context, int) (string, error) {
	v.version.Add(1)
	time.Sleep(20 * time.Millisecond) // a handoff takes time; requests are under way in it
	return "", nil
}

// serve serves with net/http until the test is over.
func serve(t *testing.T, l net.Listener, h http.Handler) {
	t.Helper()
	s := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Serve(l)
	}()
	t.Cleanup(func() {
		s.Close()
		<-done
	})
}

// quick is a short run.
func quick(url string) Config {
	return Config{URL: url, Rate: 100, Lead: 3 * time.Second, Gap: 500 * time.Millisecond, Timeout: 10 * time.Second, Connections: 5}
}

// fewer asks less often, and for longer, for where each new connection costs a handshake.
func fewer(c Config) Config {
	c.Rate, c.Lead = 40, 6*time.Second
	return c
}

// must runs a drill that can be run.
func must(t *testing.T, c Config) *Report {
	t.Helper()
	rep, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// judged is must, again where this machine was too busy for a verdict: which is true, but not what is asked. Before each further run
// it calls reset.
func judged(t *testing.T, c Config, reset func()) *Report {
	t.Helper()
	for again := 0; ; again++ {
		rep := must(t, c)
		if !rep.Busy || again == 3 {
			return rep
		}
		t.Logf("once more: %s", rep.Reason)
		reset()
	}
}

// expect fails the test unless the verdict is this one.
func (rep *Report) expect(t *testing.T, want Verdict) {
	t.Helper()
	if rep.Verdict != want {
		var text strings.Builder
		rep.WriteText(&text, false)
		t.Errorf("want %s, got %s", want, &text)
	}
}

// shortDir is a directory whose path leaves room for a unix socket's.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "zdd-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func socketPath(t *testing.T) string { return filepath.Join(shortDir(t), "s") }
