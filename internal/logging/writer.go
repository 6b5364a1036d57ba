package logging

import (
	"sync/atomic"
	"time"
)

// A line is one entry of the log.
type line struct {
	text  []byte // as the sink takes it
	plain []byte // for a person, where text is not that
}

// A sink takes lines. Its methods may block.
type sink interface {
	write(line)
	// close gives back what the sink has.
	close()
}

// A writer passes lines to a sink that may block for ever, and never makes who logs wait: lines that find no room are
// dropped, and their number is told once there is room again. The goroutine that owns the supervisor's state logs, and
// must not hang because nobody empties a pipe.
type writer struct {
	sink    sink
	lost    func(n int64) line // says that so many were dropped
	lines   chan line
	dropped atomic.Int64
	done    chan struct{} // closed when every line has been written
}

const (
	// linesMost is how many lines wait at most, and closeLimit how long the last of them is waited for.
	linesMost  = 1024
	closeLimit = time.Second
)

// newWriter returns a writer to a sink, which it takes. close ends its goroutine.
func newWriter(s sink, lost func(int64) line) *writer {
	w := &writer{sink: s, lost: lost, lines: make(chan line, linesMost), done: make(chan struct{})}
	go w.run()
	return w
}

func (w *writer) run() {
	defer close(w.done)
	defer w.sink.close()
	for l := range w.lines {
		w.sink.write(l)
		if n := w.dropped.Swap(0); n > 0 {
			w.sink.write(w.lost(n))
		}
	}
}

// put takes one line. It does not block and does not fail.
func (w *writer) put(l line) {
	select {
	case w.lines <- l:
	default:
		w.dropped.Add(1)
	}
}

// Write takes one line, for handlers that write. It does not block and does not fail.
func (w *writer) Write(text []byte) (int, error) {
	w.put(line{text: append([]byte(nil), text...)})
	return len(text), nil
}

// close waits until everything is written, a second at most: a write that blocks cannot be called back. Nothing may be
// written any more.
func (w *writer) close() {
	close(w.lines)
	select {
	case <-w.done:
	case <-time.After(closeLimit):
	}
}
