package child_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/child"
)

// acking is a helper that says these lines to einhorn's command socket, and its waiter, before Prepare.
func acking(t *testing.T, lines ...string) child.Command {
	c := helper("ack")
	c.Args = append(c.Args, lines...)
	c.Notify = filepath.Join(t.TempDir(), "notify.7")
	return c
}

func TestEinhornReady(t *testing.T) {
	t.Parallel()
	for name, ack := range map[string]string{
		"JSON":         `{"command":"worker:ack","pid":12}` + "\n",
		"escaped YAML": "---%0Acommand: worker:ack%0Apid: 12%0A\n",
		"no newline":   "", // and so the next one counts
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines := []string{"another thing\n", strings.Repeat("x", 10_000) + "\n", "", ack}
			if ack == "" {
				lines = append(lines, `{"command":"worker:ack"}`+"\n")
			}
			c := acking(t, lines...)
			// A socket that somebody has left is in the way of none.
			left, err := net.Listen("unix", filepath.Join(filepath.Dir(c.Notify), "ack.7"))
			if err != nil {
				t.Fatal(err)
			}
			left.(*net.UnixListener).SetUnlinkOnClose(false)
			left.Close()
			if err := ready(t, newReaper(t), &child.EinhornReady{}, c, long, nil); err != nil {
				t.Fatal(err)
			}
			if files, err := os.ReadDir(filepath.Dir(c.Notify)); err != nil || len(files) > 0 {
				t.Errorf("left: %v, %v", files, err)
			}
		})
	}
}

// TestEinhornReadyIsItsOwn has others say that it is up.
func TestEinhornReadyIsItsOwn(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	var w child.EinhornReady
	c := acking(t)
	if err := w.Prepare(&c); err != nil {
		t.Fatal(err)
	}
	p := start(t, r, c)
	conn, err := net.Dial("unix", filepath.Join(filepath.Dir(c.Notify), "ack.7"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(`{"command":"worker:ack"}` + "\n")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	waited := make(chan error, 1)
	go func() { waited <- w.Wait(ctx, p) }()
	// It is hung up on.
	if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Errorf("read %d, %v", n, err)
	}
	select {
	case err := <-waited:
		t.Fatalf("ready: %v", err)
	default:
	}
	cancel(context.DeadlineExceeded)
	var late *child.NotReadyError
	if err := <-waited; !errors.As(err, &late) || !strings.Contains(err.Error(), "worker:ack") {
		t.Errorf("got %v", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

// TestEinhornReadyEnds has a process end before it says anything.
func TestEinhornReadyEnds(t *testing.T) {
	t.Parallel()
	c := sh("exit 3")
	c.Notify = filepath.Join(t.TempDir(), "notify.1")
	var exited *child.ExitedError
	if err := ready(t, newReaper(t), &child.EinhornReady{}, c, long, nil); !errors.As(err, &exited) {
		t.Errorf("got %v", err)
	}
	var never child.EinhornReady
	if err := errors.Join(never.Close(), never.Prepare(&child.Command{})); err == nil {
		t.Error("it needs no directory")
	}
}
