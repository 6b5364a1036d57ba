package upgrade_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/systemd"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// TestMain is the service as well: the test binary, run again with serviceEnv set to what it is to do.
func TestMain(m *testing.M) {
	if mode := os.Getenv(serviceEnv); mode != "" {
		service(mode)
		return
	}
	// The runtime's poller keeps two descriptors from its first use on.
	if r, w, err := os.Pipe(); err == nil {
		r.Close()
		w.Close()
	}
	// With the race detector, each of the processes would wait a second at its end, for reports of others.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	before := openFDs()
	code := m.Run()
	if code == 0 {
		code = checkLeaks(before)
	}
	os.Exit(code)
}

// checkLeaks compares descriptors and goroutines with what there was before the tests.
func checkLeaks(before int) int {
	for range 200 { // the runtime lets go of some a moment later
		if openFDs() <= before && runtime.NumGoroutine() <= 2 {
			return 0
		}
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Fprintf(os.Stderr, "leak: %d descriptors (%d before), %d goroutines:\n", openFDs(), before, runtime.NumGoroutine())
	stacks := make([]byte, 1<<20)
	os.Stderr.Write(stacks[:runtime.Stack(stacks, true)])
	return 1
}

func openFDs() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	return len(entries)
}

const serviceEnv = "ZDD_TEST_SERVICE"

// service answers each connection with its generation and pid. mode says what is wrong with it.
func service(mode string) {
	if mode == "exit" {
		os.Exit(3)
	}
	if mode == "mute" {
		select {}
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, unix.SIGTERM)
	sockets, err := systemd.Inherited()
	if err != nil {
		panic(err)
	}
	manager, err := systemd.NewNotifier(os.Getenv("NOTIFY_SOCKET"))
	if err != nil {
		panic(err)
	}
	f := os.NewFile(uintptr(sockets["main"][0].Disown()), "main")
	l, err := net.FileListener(f)
	if err != nil {
		panic(err)
	}
	var open sync.WaitGroup
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			open.Add(1)
			go func() {
				defer open.Done()
				fmt.Fprintf(c, "%s %d\n", os.Getenv("GENERATION"), os.Getpid())
				c.Close()
			}()
		}
	}()
	if mode == "slow" {
		time.Sleep(300 * time.Millisecond)
	}
	if err := manager.Ready(""); err != nil {
		panic(err)
	}
	switch mode {
	case "flash": // ready, and gone
		os.Exit(1)
	case "stubborn":
		select {}
	}
	<-term
	l.Close()
	<-accepting
	open.Wait()
}

// supervisor is one that runs, with what a test wants to ask it.
type supervisor struct {
	*upgrade.Supervisor
	t       *testing.T
	reaper  *child.Reaper
	manager *recorder
	ended   chan error

	mu   sync.Mutex
	mode string
	load func() error
	tune func(*upgrade.Plan)
}

// start starts a supervisor whose service is in mode. It is stopped when the test ends.
func start(t *testing.T, mode string, options func(*upgrade.Options), tune func(*upgrade.Plan)) *supervisor {
	t.Helper()
	// Tests run in parallel, and so each waits for its own children alone.
	reaper, err := child.NewReaper(child.ReaperOptions{OwnChildrenOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	s := &supervisor{t: t, reaper: reaper, manager: &recorder{}, ended: make(chan error, 1), mode: mode, tune: tune}
	o := upgrade.Options{Plan: s.plan(), Load: s.reload, Reaper: reaper, Manager: s.manager, RuntimeDirectory: t.TempDir()}
	if options != nil {
		options(&o)
	}
	s.Supervisor = upgrade.New(o)
	go func() { s.ended <- s.Run() }()
	t.Cleanup(func() {
		s.Kill()
		select {
		case <-s.ended:
		case <-time.After(20 * time.Second):
			t.Error("the supervisor does not end")
		}
		if err := reaper.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// become sets what the next version is like.
func (s *supervisor) become(mode string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode = mode
}

func (s *supervisor) reload() (*upgrade.Plan, error) {
	s.mu.Lock()
	load := s.load
	s.mu.Unlock()
	if load != nil {
		if err := load(); err != nil {
			return nil, err
		}
	}
	return s.plan(), nil
}

func (s *supervisor) plan() *upgrade.Plan {
	s.mu.Lock()
	mode := s.mode
	s.mu.Unlock()
	p := &upgrade.Plan{
		Sockets:      []fdpass.Spec{{Name: "main", Network: fdpass.TCP, Address: "127.0.0.1:0"}},
		ReadyTimeout: 10 * time.Second, CheckTimeout: 10 * time.Second, SettleMax: time.Second,
		DrainSignal: unix.SIGTERM, DrainTimeout: 5 * time.Second, DrainGenerations: 4,
	}
	p.Prepare = func(generation int) (*upgrade.Prepared, error) {
		path := "/proc/self/exe"
		if exe, err := os.Executable(); err == nil {
			path = exe
		}
		if mode == "missing" {
			path = "/nonexistent/service"
		}
		return &upgrade.Prepared{
			Command: child.Command{Path: path, Env: []string{serviceEnv + "=" + mode, fmt.Sprintf("GENERATION=%d", generation), "GORACE=atexit_sleep_ms=0"}},
			Ready: func(notified <-chan struct{}, _ *upgrade.Target) child.Waiter {
				return &child.NotifyReady{Ready: notified}
			},
		}, nil
	}
	if s.tune != nil {
		s.tune(p)
	}
	return p
}

// until polls the status until it is as wanted.
func (s *supervisor) until(what string, ok func(*upgrade.Status) bool) *upgrade.Status {
	s.t.Helper()
	var last *upgrade.Status
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		st, err := s.Status(context.Background())
		if err != nil {
			s.t.Fatal(err)
		}
		if ok(st) {
			return st
		}
		last = st
	}
	s.t.Fatalf("not seen: %s; the last status was %+v", what, last)
	return nil
}

// live waits until a generation is live and nothing else is there, and returns its number.
func (s *supervisor) live() int {
	s.t.Helper()
	st := s.until("one live generation", func(st *upgrade.Status) bool {
		return len(st.Generations) == 1 && st.Generations[0].Role == upgrade.RoleLive && st.Current == nil
	})
	return st.Generations[0].Number
}

// ask connects, and returns the generation and the pid that answer.
func (s *supervisor) ask() (generation, pid int) {
	s.t.Helper()
	st, err := s.Status(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := net.DialTimeout("tcp", strings.TrimPrefix(st.Sockets[0].Address, "tcp://"), 5*time.Second)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(15 * time.Second))
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		s.t.Fatal(err)
	}
	if _, err := fmt.Sscan(line, &generation, &pid); err != nil {
		s.t.Fatalf("the service answered %q: %v", line, err)
	}
	return generation, pid
}

// handoff asks for one and waits for its end.
func (s *supervisor) handoff() (*upgrade.Record, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return s.Reload(ctx, upgrade.Request{By: "test"}, nil)
}

// recorder is a manager that remembers what it was told.
type recorder struct {
	mu   sync.Mutex
	told []string
}

func (r *recorder) note(what string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, what)
	return nil
}

func (r *recorder) count(what string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, t := range r.told {
		if strings.HasPrefix(t, what) {
			n++
		}
	}
	return n
}

func (r *recorder) Ready(status string) error         { return r.note("READY " + status) }
func (r *recorder) Reloading(status string) error     { return r.note("RELOADING " + status) }
func (r *recorder) Stopping(status string) error      { return r.note("STOPPING " + status) }
func (r *recorder) Status(status string) error        { return r.note("STATUS " + status) }
func (r *recorder) ExtendTimeout(time.Duration) error { return r.note("EXTEND") }
func (r *recorder) Watchdog() error                   { return r.note("WATCHDOG") }
