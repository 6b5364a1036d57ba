package logging

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// identifier is what journalctl calls the writer, and fieldPrefix begins the names of our fields, of which the journal knows nothing.
const (
	identifier  = "zddsupervisor"
	fieldPrefix = "ZDD_"
	fieldMost   = 64 // characters of a field's name; the journal refuses longer ones
)

// A journalHandler encodes records as the journal takes them (systemd.io/JOURNAL_NATIVE_PROTOCOL): MESSAGE is a line for a person, with
// all attributes in it, and each of them is a field of its own as well.
type journalHandler struct {
	writer *writer
	name   string // of the supervisor
	group  string // prefix of attributes, ends with '.'
	attrs  []field
}

// A field is an attribute with its value as text.
type field struct{ key, value string }

// newJournalLogger returns a logger to the journal.
func newJournalLogger(s sink, name string) *Logger {
	h := &journalHandler{name: name}
	h.writer = newWriter(s, func(n int64) line { return h.encode(lostRecord(n)) })
	return &Logger{slog.New(h), h.writer}
}

// Enabled is slog.Handler's.
func (h *journalHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}

// Handle is slog.Handler's. It does not block.
func (h *journalHandler) Handle(_ context.Context, r slog.Record) error {
	h.writer.put(h.encode(r))
	return nil
}

// WithAttrs is slog.Handler's.
func (h *journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.attrs = append([]field(nil), h.attrs...)
	for _, a := range attrs {
		with.attrs = appendField(with.attrs, h.group, a)
	}
	return &with
}

// WithGroup is slog.Handler's.
func (h *journalHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	with := *h
	with.group += name + "."
	return &with
}

// appendField adds an attribute, and those of a group one by one. What is empty is left out.
func appendField(fields []field, group string, a slog.Attr) []field {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, member := range v.Group() {
			fields = appendField(fields, group, member)
		}
		return fields
	}
	if a.Key == "" || isEmpty(v) {
		return fields
	}
	text := v.String()
	if v.Kind() == slog.KindTime {
		text = v.Time().Format(time.RFC3339Nano)
	}
	return append(fields, field{group + a.Key, text})
}

// encode returns a record in the journal's protocol, and as a line for standard error.
func (h *journalHandler) encode(r slog.Record) line {
	fields := append([]field(nil), h.attrs...)
	r.Attrs(func(a slog.Attr) bool {
		fields = appendField(fields, h.group, a)
		return true
	})
	var message strings.Builder
	message.WriteString(r.Message)
	for _, f := range fields {
		message.WriteString(" " + f.key + "=" + quoted(f.value))
	}
	var b []byte
	b = appendNative(b, "MESSAGE", message.String())
	b = appendNative(b, "PRIORITY", strconv.Itoa(priority(r.Level)))
	b = appendNative(b, "SYSLOG_IDENTIFIER", identifier)
	b = appendNative(b, fieldPrefix+"EVENT", r.Message)
	if h.name != "" {
		b = appendNative(b, fieldPrefix+"NAME", h.name)
	}
	for _, f := range fields {
		b = appendNative(b, fieldName(f.key), f.value)
	}
	return line{text: b, plain: fmt.Appendf(nil, "level=%s %s\n", r.Level, &message)}
}

// priority is a level as syslog(3) has it.
func priority(l slog.Level) int {
	switch {
	case l >= slog.LevelError:
		return 3
	case l >= slog.LevelWarn:
		return 4
	case l >= slog.LevelInfo:
		return 6
	}
	return 7
}

// fieldName makes the name of a field of an attribute's key.
func fieldName(key string) string {
	name := fieldPrefix + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, key)
	return name[:min(len(name), fieldMost)]
}

// quoted returns a value as slog's text has it.
func quoted(s string) string {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool {
		return r == ' ' || r == '"' || r == '=' || !unicode.IsPrint(r)
	}) {
		return strconv.Quote(s)
	}
	return s
}

// appendNative adds a field: NAME=VALUE and a newline, or, for a value that has a newline, NAME, a newline, its length in 8 bytes,
// the least significant first, VALUE and a newline.
func appendNative(b []byte, name, value string) []byte {
	b = append(b, name...)
	if !strings.Contains(value, "\n") {
		b = append(b, '=')
		b = append(b, value...)
		return append(b, '\n')
	}
	b = append(b, '\n')
	b = binary.LittleEndian.AppendUint64(b, uint64(len(value)))
	b = append(b, value...)
	return append(b, '\n')
}
