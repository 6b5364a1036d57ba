package systemd

import (
	"errors"
	"os"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// What is sent while nobody receives is received by whoever resumes, at the same path.
func TestResume(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	first, err := Listen(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := first.FD()
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	if err := first.Leave(); err != nil {
		t.Fatal(err)
	}
	conn := dial(t, path) // nobody is there, and it is not refused
	if _, err := conn.Write([]byte("READY=1")); err != nil {
		t.Fatal(err)
	}
	r, err := Resume(kept, path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := r.Receive()
	if err != nil || !m.Ready || m.Sender.PID != os.Getpid() {
		t.Errorf("got %+v, %v", m, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is left: %v", err)
	}
}

// Another socket than the one at the path is refused.
func TestResumeAnother(t *testing.T) {
	t.Parallel()
	one, two := listen(t, socketPath(t)), listen(t, socketPath(t))
	fd, err := one.FD()
	if err != nil {
		t.Fatal(err)
	}
	defer fd.Close()
	if r, err := Resume(fd, two.Path()); !errors.Is(err, ErrAddress) {
		t.Errorf("got %+v, %v", r, err)
	}
	if _, err := Resume(fdpass.NewFD(-1), one.Path()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("of a closed one: %v", err)
	}
}
