package fdpass

import (
	"strconv"
	"sync"
)

// An FD owns one file descriptor: whoever holds the FD decides when the
// descriptor is closed, and nobody else does. Unlike an *os.File it never
// touches the status flags of the open file description (which every process
// that inherited it shares, O_NONBLOCK above all), is not closed by the garbage
// collector, and is never given to the runtime's poller.
//
// The methods may be called from several goroutines at once. The number that
// Raw returns is only good while the FD is not closed; its borrower sees to
// that.
type FD struct {
	mu  sync.Mutex
	raw int // -1 once closed or disowned
}

// NewFD takes ownership of the descriptor raw. A negative raw makes an FD that
// is closed already.
func NewFD(raw int) *FD {
	return &FD{raw: max(raw, -1)}
}

// Raw returns the number of the descriptor, which the FD still owns, or -1 once
// it is closed or disowned.
func (f *FD) Raw() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.raw
}

// Disown gives the descriptor to the caller, who closes it from now on, and
// leaves the FD as if closed. It returns -1 if there was nothing left to give.
func (f *FD) Disown() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	raw := f.raw
	f.raw = -1
	return raw
}

// String names the descriptor for logs and error messages.
func (f *FD) String() string {
	if raw := f.Raw(); raw >= 0 {
		return "fd " + strconv.Itoa(raw)
	}
	return "closed fd"
}
