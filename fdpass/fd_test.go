package fdpass

import (
	"errors"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func newTestFD(t *testing.T) *FD {
	t.Helper()
	raw, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := NewFD(raw)
	t.Cleanup(func() { fd.Close() })
	return fd
}

func TestFD(t *testing.T) {
	t.Parallel()
	fd := newTestFD(t)
	dup, err := fd.Dup()
	if err != nil {
		t.Fatal(err)
	}
	if dup.Raw() == fd.Raw() || dup.Raw() < 3 {
		t.Errorf("Dup of %v is %v", fd, dup)
	}
	if flags, err := unix.FcntlInt(uintptr(dup.Raw()), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("the duplicate is not close-on-exec: %#x, %v", flags, err)
	}
	if err := fd.Close(); err != nil {
		t.Error(err)
	}
	if fd.Raw() != -1 || fd.String() != "closed fd" {
		t.Errorf("a closed FD is %v, number %d", fd, fd.Raw())
	}
	if err := fd.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
	if _, err := fd.Dup(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Dup after Close: %v", err)
	}
	if _, err := unix.FcntlInt(uintptr(dup.Raw()), unix.F_GETFD, 0); err != nil {
		t.Errorf("the duplicate did not outlive the original: %v", err)
	}
	raw := dup.Disown()
	if raw < 0 || dup.Raw() != -1 || dup.Disown() != -1 {
		t.Errorf("Disown gives %d and leaves %v", raw, dup)
	}
	if err := dup.Close(); err != nil {
		t.Error(err)
	}
	if err := unix.Close(raw); err != nil {
		t.Errorf("a disowned descriptor was closed: %v", err)
	}
	if fd := NewFD(-5); fd.Raw() != -1 || fd.Close() != nil {
		t.Errorf("NewFD(-5) is %v", fd)
	}
}

func TestFDCloseError(t *testing.T) {
	// Not parallel: nobody may get the number meanwhile.
	raw := newTestFD(t).Disown()
	unix.Close(raw)
	fd := NewFD(raw)
	if err := fd.Close(); !errors.Is(err, unix.EBADF) {
		t.Errorf("closing what is closed already: %v", err)
	}
	if err := fd.Close(); err != nil || fd.Raw() != -1 {
		t.Errorf("after an error the FD counts as closed: %v, %v", fd, err)
	}
}

// TestFDConcurrent closes an FD while others duplicate it: each either gets a
// working duplicate or is told that it is closed.
func TestFDConcurrent(t *testing.T) {
	t.Parallel()
	fd := newTestFD(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for {
				dup, err := fd.Dup()
				if errors.Is(err, os.ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				if err := dup.Close(); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	if err := fd.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
}
