package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/internal/leaktest"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// clientEnv makes the test binary a client of the control socket in it.
const clientEnv = "ZDD_TEST_CLIENT"

func TestMain(m *testing.M) {
	if path := os.Getenv(clientEnv); path != "" {
		_, err := NewClient(path).Status(context.Background())
		fmt.Println(err)
		return
	}
	os.Exit(leaktest.Main(m))
}

// fakeService answers as it is told to.
type fakeService struct {
	steps  []upgrade.Progress
	record *upgrade.Record
	err    error
	asked  chan upgrade.Request
}

func (f *fakeService) Reload(_ context.Context, r upgrade.Request, progress func(upgrade.Progress)) (*upgrade.Record, error) {
	f.asked <- r
	for _, p := range f.steps {
		progress(p)
	}
	return f.record, f.err
}

func (f *fakeService) Ask(r upgrade.Request) error {
	f.asked <- r
	return f.err
}

func (f *fakeService) Deploy(ctx context.Context, r upgrade.Request, progress func(upgrade.Progress)) (*upgrade.Record, error) {
	return f.Reload(ctx, r, progress)
}

func (f *fakeService) Releases(context.Context) (*Releases, error) {
	return &Releases{Directory: "/srv/releases", Link: "/srv/current"}, f.err
}

func (f *fakeService) Promote(_ context.Context, by string) (*upgrade.Record, error) {
	f.asked <- upgrade.Request{By: by}
	return f.record, f.err
}

func (f *fakeService) Abort(_ context.Context, by string) (*upgrade.Record, error) {
	f.asked <- upgrade.Request{By: by}
	return f.record, f.err
}

func (f *fakeService) Upgrade(_ context.Context, by string) (int, error) {
	f.asked <- upgrade.Request{By: by}
	return 4711, f.err
}

func (f *fakeService) Status(context.Context) (*upgrade.Status, error) {
	return &upgrade.Status{Version: upgrade.StatusVersion, Phase: "idle"}, f.err
}

// serve serves f until the test ends, and returns the path of the socket.
func serve(t *testing.T, f *fakeService) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "zdd-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, SocketName)
	serveAt(t, path, f, slog.New(slog.DiscardHandler))
	return path
}

// serveAt serves f at a path.
func serveAt(t *testing.T, path string, f *fakeService, log *slog.Logger) {
	t.Helper()
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	f.asked = make(chan upgrade.Request, 16)
	s := NewServer(Identity{Name: "svc", PID: 42, Program: "test"}, f, log)
	s.Serve(l)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(path); err == nil {
			t.Error("the socket's file is left")
		}
	})
}

func TestStatus(t *testing.T) {
	t.Parallel()
	st, err := NewClient(serve(t, &fakeService{})).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if st.Name != "svc" || st.PID != 42 || st.Version != upgrade.StatusVersion || st.Phase != "idle" {
		t.Errorf("the status is %+v", st)
	}
}

func TestReload(t *testing.T) {
	t.Parallel()
	bad := upgrade.Record{Handoff: 3, Outcome: upgrade.OutcomeFailed, Phase: "ready", Reason: "it is broken"}
	for _, tc := range []struct {
		name  string
		f     fakeService
		check func(*upgrade.Record, error) bool
	}{
		{"done", fakeService{steps: make([]upgrade.Progress, 5), record: &upgrade.Record{Handoff: 3, Outcome: upgrade.OutcomeDone}},
			func(r *upgrade.Record, err error) bool { return err == nil && r.Handoff == 3 }},
		{"failed", fakeService{steps: make([]upgrade.Progress, 5), record: &bad, err: &upgrade.HandoffError{Record: bad}},
			func(_ *upgrade.Record, err error) bool {
				var failed *upgrade.HandoffError
				return errors.As(err, &failed) && failed.Record.Reason == bad.Reason
			}},
		{"stopping", fakeService{steps: make([]upgrade.Progress, 5), err: upgrade.ErrStopping},
			func(_ *upgrade.Record, err error) bool {
				return errors.Is(err, upgrade.ErrStopping) && errors.Is(err, ErrRefused)
			}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			path := serve(t, &tc.f)
			steps := 0
			r, err := NewClient(path).Reload(t.Context(), 7, func(upgrade.Progress) { steps++ })
			if !tc.check(r, err) || steps != 5 {
				t.Errorf("%d steps, %+v, %v", steps, r, err)
			}
			if want := (upgrade.Request{By: fmt.Sprintf("uid %d", os.Getuid()), Since: 7}); <-tc.f.asked != want {
				t.Error("another request came")
			}
		})
	}
}

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "none")
	if _, err := NewClient(path).Status(t.Context()); !errors.Is(err, ErrNotRunning) || !strings.Contains(err.Error(), path) {
		t.Errorf("the error is %v", err)
	}
	// A file of a supervisor that is gone.
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if _, err := NewClient(path).Status(t.Context()); !errors.Is(err, ErrNotRunning) {
		t.Errorf("the error is %v", err)
	}
	l2, err := Listen(path)
	if err != nil {
		t.Fatalf("the place of a socket of nobody is not taken: %v", err)
	}
	defer l2.Close()
	if _, err := Listen(path); !errors.Is(err, ErrInUse) {
		t.Errorf("the place of a live one: %v", err)
	}
}

// Another user is refused by the socket's mode, and by its credentials where the mode would let it through.
func TestAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("needs root")
		}
		t.Skip("needs root: becomes another user")
	}
	path := serve(t, &fakeService{})
	dir := filepath.Dir(path)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// The test binary, where the other user reaches it.
	program := filepath.Join(dir, "client")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Not by this process: one that another test forks just then would have it open for writing, and it could not be executed.
	if out, err := exec.Command("cp", self, program).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ask := func() string {
		c := exec.Command(program)
		c.Env = []string{clientEnv + "=" + path}
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	if got := ask(); !strings.Contains(got, "another user") {
		t.Errorf("with the socket's own mode: %s", got)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if got := ask(); !strings.Contains(got, "uid 65534 may not control") {
		t.Errorf("with a mode that lets everybody through: %s", got)
	}
}

// Requests that never end, and ones that are no requests, hold nobody up and do not keep Close from returning.
func TestHalfRequests(t *testing.T) {
	t.Parallel()
	path := serve(t, &fakeService{})
	for _, text := range []string{"", "GET /v1/st", "POST /v1/reload HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nabc", "\x00\xff\n\n",
		"GET /v1/status HTTP/1.1\r\nX: " + strings.Repeat("x", 100<<10) + "\r\n\r\n"} {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if _, err := io.WriteString(c, text); err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := NewClient(path).Status(ctx); err != nil {
		t.Errorf("somebody else is not answered: %v", err)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	if _, err := Find([]string{base}); !errors.Is(err, ErrNotRunning) {
		t.Errorf("with none: %v", err)
	}
	listen := func(name string) string {
		dir := filepath.Join(base, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		l, err := Listen(filepath.Join(dir, SocketName))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return filepath.Join(dir, SocketName)
	}
	one := listen("one")
	if got, err := Find([]string{base}); got != one || err != nil {
		t.Errorf("with one: %q, %v", got, err)
	}
	listen("two")
	if _, err := Find([]string{base}); err == nil || !strings.Contains(err.Error(), "one, two") {
		t.Errorf("with two: %v", err)
	}
}

func TestPromoteAndAbort(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(*Client, context.Context) (*upgrade.Record, error){
		"promote": (*Client).Promote, "abort": (*Client).Abort,
	} {
		f := &fakeService{record: &upgrade.Record{Handoff: 3, To: 5, Phase: "canary"}}
		client := NewClient(serve(t, f))
		r, err := call(client, t.Context())
		if err != nil || r.Handoff != 3 || r.To != 5 || r.Phase != "canary" {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		if asked := <-f.asked; asked.By != fmt.Sprintf("uid %d", os.Geteuid()) {
			t.Errorf("%s was asked by %q", name, asked.By)
		}
		for _, nothing := range []error{upgrade.ErrNothingToPromote, upgrade.ErrNothingToAbort} {
			f.err = nothing
			if _, err := call(client, t.Context()); !errors.Is(err, ErrNothing) || !strings.Contains(err.Error(), nothing.Error()) {
				t.Errorf("%s: %v", name, err)
			}
		}
		f.err = upgrade.ErrStopping
		if _, err := call(client, t.Context()); !errors.Is(err, ErrRefused) || !errors.Is(err, upgrade.ErrStopping) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A client that does not know of steps that have begun does not take one for a step that has ended.
func TestBegunStepsAreNotEnded(t *testing.T) {
	t.Parallel()
	f := &fakeService{
		steps:  []upgrade.Progress{{Step: "ready", Waits: "READY=1"}, {Step: "ready", Note: "a note"}, {Step: "ready"}},
		record: &upgrade.Record{Outcome: upgrade.OutcomeDone},
	}
	path := serve(t, f)
	var got []upgrade.Progress
	if _, err := NewClient(path).Reload(t.Context(), 0, func(p upgrade.Progress) { got = append(got, p) }); err != nil || !slices.Equal(got, f.steps) {
		t.Errorf("this client is told %+v, %v", got, err)
	}
	body, err := NewClient(path).do(t.Context(), "POST", "/v1/reload")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	var old []string
	for decoder := json.NewDecoder(body); ; {
		var e struct {
			Progress *struct{ Step, Note string }
			Result   *struct{ Outcome string }
		}
		if err := decoder.Decode(&e); err != nil {
			break
		}
		if e.Progress != nil {
			old = append(old, e.Progress.Step+e.Progress.Note)
		}
		if e.Result != nil {
			old = append(old, e.Result.Outcome)
		}
	}
	if want := []string{"readya note", "ready", "done"}; !slices.Equal(old, want) {
		t.Errorf("an older client is told %q, want %q", old, want)
	}
}
