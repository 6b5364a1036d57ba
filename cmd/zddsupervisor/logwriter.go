package main

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// A logWriter writes lines to somebody who may stop reading, and never makes who logs wait: lines that find no room are
// dropped, and their number is told once there is room again. The goroutine that owns the supervisor's state logs, and
// must not hang because nobody empties a pipe. The file is not made non-blocking instead: the service has it too.
type logWriter struct {
	out     io.Writer
	lines   chan []byte
	dropped atomic.Int64
	done    chan struct{} // closed when every line has been written
}

// newLogWriter returns a writer to out, which it borrows. Close ends its goroutine.
func newLogWriter(out io.Writer) *logWriter {
	w := &logWriter{out: out, lines: make(chan []byte, 1024), done: make(chan struct{})}
	go w.run()
	return w
}

func (w *logWriter) run() {
	defer close(w.done)
	for line := range w.lines {
		// An error has nobody to go to: this is where errors go.
		w.out.Write(line)
		if n := w.dropped.Swap(0); n > 0 {
			fmt.Fprintf(w.out, "%d lines of the log were lost because nobody read it\n", n)
		}
	}
}

// Write takes one line. It does not block and does not fail.
func (w *logWriter) Write(line []byte) (int, error) {
	select {
	case w.lines <- append([]byte(nil), line...):
	default:
		w.dropped.Add(1)
	}
	return len(line), nil
}

// Close waits until everything is written, a second at most: a write that blocks cannot be called back. Nothing may be
// written any more.
func (w *logWriter) Close() {
	close(w.lines)
	select {
	case <-w.done:
	case <-time.After(time.Second):
	}
}
