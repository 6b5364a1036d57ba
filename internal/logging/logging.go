package logging

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"time"
)

// Format is how the log is written.
type Format string

const (
	Auto    Format = "auto" // Journal where standard error is the journal's, else Text
	Text    Format = "text"
	JSON    Format = "json"
	Journal Format = "journal"
)

// Options are what a Logger is made from.
type Options struct {
	Format Format // "" is Auto
	// Stderr is where all but the journal is written to; borrowed. It is what Auto looks at.
	Stderr io.Writer
	// JournalStream is the variable JOURNAL_STREAM, see systemd.exec(5).
	JournalStream string
	// JournalSocket is the path of the journal's socket; "" for the usual one.
	JournalSocket string
	// Name is added to what the journal gets, to tell supervisors apart.
	Name string
}

// journalSocket is where the journal listens.
const journalSocket = "/run/systemd/journal/socket"

// A Logger logs without making who logs wait: what finds no room is dropped, and counted, and the log says so once there is room again.
type Logger struct {
	*slog.Logger
	writer *writer
}

// New returns a logger. Where the journal is wanted and cannot be reached, it is one of text. Close ends it.
func New(o Options) *Logger {
	format := o.Format
	if o.JournalSocket == "" {
		o.JournalSocket = journalSocket
	}
	if format == "" || format == Auto {
		format = Text
		if isJournal(o.Stderr, o.JournalStream) {
			format = Journal
		}
	}
	if format == Journal {
		s, err := dialJournal(o.JournalSocket, o.Stderr)
		if err == nil {
			return newJournalLogger(s, o.Name)
		}
		l := newStderrLogger(o, Text)
		l.Warn("the journal cannot be reached: the log goes to standard error", "cause", err)
		return l
	}
	return newStderrLogger(o, format)
}

// Close waits until everything is written, a second at most. Nothing may be logged any more.
func (l *Logger) Close() { l.writer.close() }

// lostText is what the log says of lines that were dropped.
const lostText = "lines of the log were lost because nobody read it"

// newStderrLogger returns a logger to standard error: of text or of JSON.
func newStderrLogger(o Options, format Format) *Logger {
	// The journal adds its own time to text.
	handler := textHandler(o.JournalStream == "")
	if format == JSON {
		handler = jsonHandler
	}
	w := newWriter(stderrSink{o.Stderr}, func(n int64) line {
		var b bytes.Buffer
		_ = handler(&b).Handle(context.Background(), lostRecord(n))
		return line{text: b.Bytes()}
	})
	return &Logger{slog.New(handler(w)), w}
}

func lostRecord(n int64) slog.Record {
	r := slog.NewRecord(time.Now(), slog.LevelWarn, lostText, 0)
	r.AddAttrs(slog.Int64("lines", n))
	return r
}

// textHandler returns what makes handlers of text: without the time where that is not wanted.
func textHandler(withTime bool) func(io.Writer) slog.Handler {
	return func(out io.Writer) slog.Handler {
		return slog.NewTextHandler(out, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey && !withTime {
				return slog.Attr{}
			}
			return withoutEmpty(groups, a)
		}})
	}
}

// jsonHandler makes a handler of JSON: each line is an object with time, level, msg and the attributes.
func jsonHandler(out io.Writer) slog.Handler {
	return slog.NewJSONHandler(out, &slog.HandlerOptions{ReplaceAttr: withoutEmpty})
}

// withoutEmpty leaves out what is empty.
func withoutEmpty(_ []string, a slog.Attr) slog.Attr {
	if isEmpty(a.Value) {
		return slog.Attr{}
	}
	return a
}

// isEmpty reports whether there is nothing to tell: no release where releases are not managed, for instance.
func isEmpty(v slog.Value) bool { return v.Kind() == slog.KindString && v.String() == "" }

// A stderrSink writes to somebody.
type stderrSink struct{ out io.Writer }

func (s stderrSink) write(l line) {
	_, _ = s.out.Write(l.text) // an error has nobody to go to: this is where errors go
}

func (s stderrSink) close() {}
