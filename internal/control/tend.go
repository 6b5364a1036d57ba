package control

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"
)

// tendInterval is the time between two looks at whether the socket's file is there. inotify(7) would not do: it does not
// tell that the directory was removed which the listener has open, nor that something was mounted over it.
const tendInterval = time.Second

// A tending is the goroutine that sees to it that the control socket is found.
type tending struct {
	over chan struct{}
	once sync.Once
	done sync.WaitGroup
}

// end ends the goroutine and waits for it.
func (t *tending) end() {
	t.once.Do(func() { close(t.over) })
	t.done.Wait()
}

// Tend begins to look now and then whether the socket's file is where commands look for it, and to make it again, with its
// directory, if it is not, until Close or Files. What it does is told to log. It is called once, and again
// after Files.
func (l *Listener) Tend(log *slog.Logger) {
	t := &tending{over: make(chan struct{})}
	l.tended = t
	t.done.Add(1)
	go func() {
		defer t.done.Done()
		look := time.NewTicker(tendInterval)
		defer look.Stop()
		said := "" // why it could not be done the last time
		for {
			select {
			case <-look.C:
			case <-t.over:
				return
			}
			said = l.look(log, said)
		}
	}()
}

// look makes the socket again if it is gone. A reason why that fails is told once, and returned.
func (l *Listener) look(log *slog.Logger, said string) string {
	l.mu.Lock()
	present := l.present()
	l.mu.Unlock()
	if present {
		return ""
	}
	err := l.bind()
	switch {
	case err == nil:
		log.Error("the control socket was removed: it is made again", "path", l.path)
		return ""
	case err.Error() != said:
		log.Error("the control socket was removed, and cannot be made again yet: only signals reach this supervisor", "path", l.path, "cause", err)
	}
	return err.Error()
}

// MakeDirectory makes a directory that the service's user can enter whatever the umask is. One that is there already
// stays as it is.
func MakeDirectory(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	err := os.Chmod(dir, 0o755)
	if errors.Is(err, fs.ErrNotExist) { // somebody has removed it again, which whoever uses it sees
		return nil
	}
	return err
}
