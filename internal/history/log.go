package history

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// Options say where and how a Log writes. The zero value of every field but Directory is usable.
type Options struct {
	Directory string        // the state directory
	Log       *slog.Logger  // told when rows cannot be written, and when they can be again; nil for nobody
	MaxBytes  int64         // at which a file is renamed; 0 means 512 KiB
	Files     int           // how many there are then, with the newest; 0 means 4, and 16 is the most
	Retry     time.Duration // between two attempts where it fails; 0 means 2 s
	MaxRows   int           // how many wait where it fails; past that the oldest is lost; 0 means 1000
}

// A Log writes the history, and knows what it says about releases. It is an upgrade.Observer. Its methods may be called by
// several goroutines, and but for Open, Flush and Close do not block.
type Log struct {
	opts Options
	path string
	log  *slog.Logger
	wake chan struct{} // there is something to write, or it is over
	done chan struct{} // closed when the goroutine has ended

	mu       sync.Mutex
	waiting  [][]byte // lines that are not on disk yet
	first    int      // the number of the first of them, from 0 for ever
	lost     int      // since the last that was written
	closing  bool
	written  chan struct{} // closed, and made anew, when some were written
	releases releases
	handoff  int // the newest numbers
	newest   int
}

// Open reads what there is, and returns a Log that goes on with it. It must be closed. What cannot be read is told in the
// log, and is no error: the service is worth more than its history.
func Open(o Options) *Log {
	o.MaxBytes, o.Files = cmp.Or(o.MaxBytes, 512<<10), min(cmp.Or(o.Files, 4), mostFiles)
	o.Retry, o.MaxRows = cmp.Or(o.Retry, 2*time.Second), cmp.Or(o.MaxRows, 1000)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	l := &Log{
		opts: o, path: filepath.Join(o.Directory, FileName), log: o.Log,
		wake: make(chan struct{}, 1), done: make(chan struct{}), written: make(chan struct{}),
	}
	l.recall()
	go l.run()
	return l
}

// recall reads what there is.
func (l *Log) recall() {
	files, err := open(l.opts.Directory)
	defer closeAll(files)
	damaged := 0
	for _, f := range files {
		n, readErr := each(f, l.take)
		damaged += n
		err = errors.Join(err, readErr)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.log.Warn("the history cannot be read: a rollback needs the name of a release", "cause", err)
	}
	if damaged > 0 {
		l.log.Warn("some lines of the history cannot be understood, and are left out", "file", l.path, "lines", damaged)
	}
}

// take takes in what a row says. The lock is held, or nobody else knows of l yet.
func (l *Log) take(r row) {
	switch {
	case r.Handoff != nil:
		l.handoff, l.newest = max(l.handoff, r.Handoff.Handoff), max(l.newest, r.Handoff.To)
		l.releases.handoff(r.Handoff)
	case r.Known != nil:
		l.releases.live = r.Known
	case r.Ending != nil:
		l.newest = max(l.newest, r.Ending.Generation)
		l.releases.ending(r.Ending)
	}
}

// HandoffEnded has a row written.
func (l *Log) HandoffEnded(r upgrade.Record) { l.append(row{Handoff: &r}) }

// GenerationGone has a row written.
func (l *Log) GenerationGone(e upgrade.Ending) { l.append(row{Ending: &e}) }

// HookEnded has a row written.
func (l *Log) HookEnded(h upgrade.HookResult) { l.append(row{Hook: &h}) }

// Resume has the row of a handoff written that a supervisor before this one has told of in the state that it left, if it is
// not there: it has died too soon.
func (l *Log) Resume(last *upgrade.Record) {
	if last == nil {
		return
	}
	if handoff, _ := l.Newest(); last.Handoff > handoff {
		l.HandoffEnded(*last)
	}
}

func (l *Log) append(r row) {
	line, err := encode(r)
	if err != nil {
		l.log.Error("a row of the history cannot be written", "cause", err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.take(r)
	l.waiting = append(l.waiting, line)
	if len(l.waiting) > l.opts.MaxRows {
		l.waiting[0] = nil
		l.waiting = l.waiting[1:]
		l.first++
		l.lost++
	}
	l.wakeLocked()
}

func (l *Log) wakeLocked() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Newest returns the numbers of the newest handoff and of the newest generation; 0 for none.
func (l *Log) Newest() (handoff, generation int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.handoff, l.newest
}

// Good returns the releases to which a rollback from one may go, the best first: those that were live and were not given
// up, the newest first.
func (l *Log) Good(from string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.releases.good(from)
}

// Flush blocks until everything that was told before is on disk, or ctx ends.
func (l *Log) Flush(ctx context.Context) error {
	l.mu.Lock()
	end := l.first + len(l.waiting)
	l.mu.Unlock()
	for {
		l.mu.Lock()
		over, written := l.first >= end, l.written
		l.mu.Unlock()
		if over {
			return nil
		}
		select {
		case <-written:
		case <-l.done:
			return errors.New("the history is closed")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close writes what is left, once, and returns when the goroutine that writes has ended. Nothing may be told after it.
func (l *Log) Close() {
	l.mu.Lock()
	l.closing = true
	l.wakeLocked()
	l.mu.Unlock()
	<-l.done
}

// run writes until Close.
func (l *Log) run() {
	defer close(l.done)
	retry := time.NewTimer(0)
	<-retry.C
	defer retry.Stop()
	failure := "" // of the last attempt, in words
	for {
		select {
		case <-l.wake:
		case <-retry.C:
		}
		l.mu.Lock()
		lines, first, lost, closing := slices.Clone(l.waiting), l.first, l.lost, l.closing
		l.mu.Unlock()
		n, err := l.write(lines)
		if n > 0 {
			l.wrote(first+n, lost)
		}
		switch {
		case err != nil && (err.Error() != failure || closing):
			failure = err.Error()
			l.log.Error("the history cannot be written; its rows wait in memory", "rows", len(lines)-n, "cause", err)
		case err == nil && failure != "" && n > 0:
			failure = ""
			l.log.Info("the history can be written again", "rows", n, "lost", lost)
		}
		if err != nil {
			retry.Reset(l.opts.Retry)
		}
		if closing {
			return
		}
	}
}

// wrote lets go of the lines below a number.
func (l *Log) wrote(end, lost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost -= lost
	if n := end - l.first; n > 0 { // some may have been given up meanwhile
		l.waiting = append([][]byte(nil), l.waiting[n:]...)
		l.first = end
	}
	close(l.written)
	l.written = make(chan struct{})
}

// write appends lines, blocks until they are on disk, and returns how many are.
func (l *Log) write(lines [][]byte) (written int, err error) {
	for written < len(lines) {
		rest := lines[written:]
		f, size, created, err := l.openForLines(rest[0])
		if err != nil {
			return written, err
		}
		n := 0
		if created {
			size, err = l.begin(f)
		}
		if err == nil {
			n, err = appendLines(f, size, rest, l.opts.MaxBytes)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return written, err
		}
		written += n
		if created {
			if err := syncDirectory(l.opts.Directory); err != nil {
				l.log.Warn("the history may be lost if the machine fails now", "cause", err)
			}
		}
	}
	return written, nil
}

// openForLines opens the newest file, after it has made room for a line.
func (l *Log) openForLines(line []byte) (f *os.File, size int64, created bool, err error) {
	info, err := os.Stat(l.path)
	if err == nil && info.Size() > 0 && info.Size()+int64(len(line)) > l.opts.MaxBytes {
		if err := l.rotate(); err != nil {
			return nil, 0, false, err
		}
	}
	f, err = os.OpenFile(l.path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return nil, 0, false, err
	}
	if info, err = f.Stat(); err != nil {
		f.Close()
		return nil, 0, false, err
	}
	return f, info.Size(), info.Size() == 0, nil
}

// knownPart is which part of a file what is known of releases may take.
const knownPart = 8

// begin writes what is known of releases into a file that is empty, and returns its size then. Of more than fit into a small part of it,
// those are left out that were live the longest ago.
func (l *Log) begin(f *os.File) (int64, error) {
	l.mu.Lock()
	known := slices.Clone(l.releases.live)
	l.mu.Unlock()
	if len(known) == 0 {
		return 0, nil
	}
	line, err := encode(row{Known: known})
	for err == nil && int64(len(line)) > l.opts.MaxBytes/knownPart && len(known) > 1 {
		known = known[(len(known)+1)/2:]
		line, err = encode(row{Known: known})
	}
	if err != nil {
		return 0, err
	}
	n, err := f.Write(line)
	return int64(n), err
}

// rotate renames every file to the next older one. The oldest is lost.
func (l *Log) rotate() error {
	for i := l.opts.Files - 1; i > 0; i-- {
		if err := os.Rename(numbered(l.path, i-1), numbered(l.path, i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return syncDirectory(l.opts.Directory)
}

// appendLines appends as many lines as there is room for, one at least, in one write, and returns how many. After an error the
// file is as it was, or ends with half a line.
func appendLines(f *os.File, size int64, lines [][]byte, most int64) (n int, err error) {
	var b []byte
	var last [1]byte
	if size > 0 {
		if _, err := f.ReadAt(last[:], size-1); err != nil {
			return 0, err
		}
		if last[0] != '\n' { // somebody has died while he wrote it
			b = append(b, '\n')
		}
	}
	for n < len(lines) && (n == 0 || size+int64(len(b)+len(lines[n])) <= most) {
		b = append(b, lines[n]...)
		n++
	}
	if _, err = f.Write(b); err == nil {
		err = f.Sync()
	}
	if err != nil {
		_ = f.Truncate(size)
		return 0, err
	}
	return n, nil
}

func syncDirectory(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
