package logging

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// said is what a logger writes to standard error.
func said(o Options, log func(*slog.Logger)) string {
	var b bytes.Buffer
	o.Stderr = &b
	l := New(o)
	log(l.Logger)
	l.Close()
	return b.String()
}

func live(l *slog.Logger) {
	l.With("handoff", 3).Info("live", "generation", 2, "release", "", "took", (1500 * time.Millisecond).String())
}

func TestText(t *testing.T) {
	t.Parallel()
	got := said(Options{}, live)
	if !strings.HasPrefix(got, "time=") || !strings.HasSuffix(got, " level=INFO msg=live handoff=3 generation=2 took=1.5s\n") {
		t.Errorf("%q", got)
	}
	if got := said(Options{JournalStream: "1:2"}, live); got != "level=INFO msg=live handoff=3 generation=2 took=1.5s\n" {
		t.Errorf("for the journal, which has its own time: %q", got)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	text := said(Options{Format: JSON}, func(l *slog.Logger) {
		live(l)
		l.Error("two\nlines", "cause", errors.New("a \"quoted\" cause"))
	})
	var seen []string
	for line := range strings.Lines(text) {
		var v struct {
			Time                time.Time
			Level, Msg, Cause   string
			Generation, Handoff int
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil || v.Time.IsZero() {
			t.Errorf("%q: %v", line, err)
		}
		seen = append(seen, fmt.Sprintf("%s %s %d %d %s", v.Level, v.Msg, v.Generation, v.Handoff, v.Cause))
	}
	if want := []string{"INFO live 2 3 ", "ERROR two\nlines 0 0 a \"quoted\" cause"}; fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", seen, want)
	}
}

// A journal is a socket that takes what a logger sends.
type journal struct {
	t    *testing.T
	path string
	conn *net.UnixConn
}

func newJournal(t *testing.T) *journal {
	t.Helper()
	dir, err := os.MkdirTemp("", "zdd-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	j := &journal{t: t, path: filepath.Join(dir, "socket")}
	j.open()
	return j
}

func (j *journal) open() {
	j.t.Helper()
	os.Remove(j.path)
	var err error
	if j.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: j.path, Net: "unixgram"}); err != nil {
		j.t.Fatal(err)
	}
	conn := j.conn
	j.t.Cleanup(func() { conn.Close() })
}

// entry reads one, and returns its fields.
func (j *journal) entry() map[string]string {
	j.t.Helper()
	j.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	text, oob := make([]byte, 1<<20), make([]byte, 64)
	n, oobn, _, _, err := j.conn.ReadMsgUnix(text, oob)
	if err != nil {
		j.t.Fatal(err)
	}
	text = text[:n]
	if oobn > 0 {
		text = j.file(oob[:oobn])
	}
	fields := make(map[string]string)
	for len(text) > 0 {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		if name, value, ok := bytes.Cut(line, []byte("=")); ok {
			fields[string(name)], text = string(value), rest
			continue
		}
		length := binary.LittleEndian.Uint64(rest)
		fields[string(line)], text = string(rest[8:8+length]), rest[8+length+1:]
	}
	return fields
}

// file reads what was passed as a file, which has to be sealed.
func (j *journal) file(oob []byte) []byte {
	j.t.Helper()
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		j.t.Fatal(err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		j.t.Fatal(err)
	}
	f := os.NewFile(uintptr(fds[0]), "log")
	defer f.Close()
	const all = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE | unix.F_SEAL_SEAL
	if seals, err := unix.FcntlInt(uintptr(fds[0]), unix.F_GET_SEALS, 0); err != nil || seals&all != all {
		j.t.Errorf("the file's seals are %#x, %v", seals, err)
	}
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<30))
	if err != nil {
		j.t.Fatal(err)
	}
	return text
}

func TestJournal(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	var stderr bytes.Buffer
	l := New(Options{Format: Journal, Stderr: &stderr, JournalSocket: j.path, Name: "svc"})
	defer l.Close()
	live(l.Logger)
	want := map[string]string{
		"MESSAGE": "live handoff=3 generation=2 took=1.5s", "PRIORITY": "6", "SYSLOG_IDENTIFIER": "zddsupervisor", "ZDD_EVENT": "live", "ZDD_NAME": "svc",
		"ZDD_HANDOFF": "3", "ZDD_GENERATION": "2", "ZDD_TOOK": "1.5s",
	}
	if got := j.entry(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", got, want)
	}
	l.WithGroup("of").Error("bad", "cause", errors.New("two\nlines"), slog.Group("peer", "user-id", 7))
	want = map[string]string{
		"MESSAGE": `bad of.cause="two\nlines" of.peer.user-id=7`, "PRIORITY": "3", "SYSLOG_IDENTIFIER": "zddsupervisor", "ZDD_EVENT": "bad", "ZDD_NAME": "svc",
		"ZDD_OF_CAUSE": "two\nlines", "ZDD_OF_PEER_USER_ID": "7",
	}
	if got := j.entry(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", got, want)
	}
	l.Debug("not wanted")
	large := strings.Repeat("0123456789abcdef", 1<<15) // more than a datagram takes
	l.Warn("status", "json", large)
	if got := j.entry(); got["ZDD_JSON"] != large || got["PRIORITY"] != "4" {
		t.Errorf("a large entry has %d bytes and priority %q", len(got["ZDD_JSON"]), got["PRIORITY"])
	}
	if stderr.Len() > 0 {
		t.Errorf("on standard error: %q", stderr.String())
	}
}

// What the journal does not take goes to standard error; when it is back, it gets the rest.
func TestJournalGoesAndComes(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	stderr := bufio.NewReader(r)
	l := New(Options{Format: Journal, Stderr: w, JournalSocket: j.path})
	defer l.Close()
	l.Info("one")
	if got := j.entry()["ZDD_EVENT"]; got != "one" {
		t.Errorf("got %q", got)
	}
	j.conn.Close()
	l.Warn("two", "generation", 4)
	if got, err := stderr.ReadString('\n'); got != "level=WARN two generation=4\n" {
		t.Errorf("without a journal: %q, %v", got, err)
	}
	j.open()
	l.Info("three")
	if got := j.entry()["ZDD_EVENT"]; got != "three" {
		t.Errorf("got %q", got)
	}
	without := said(Options{Format: Journal, JournalSocket: j.path + ".none"}, live)
	if !strings.Contains(without, "the journal cannot be reached") || !strings.Contains(without, "msg=live") {
		t.Errorf("where there is none at all: %q", without)
	}
}

// Auto is the journal only where standard error is what JOURNAL_STREAM says.
func TestAuto(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(w.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	for stream, want := range map[string]bool{
		fmt.Sprintf("%d:%d", st.Dev, st.Ino): true, fmt.Sprintf("%d:%d", st.Dev, st.Ino+1): false, "": false, "x": false,
	} {
		if got := isJournal(w, stream); got != want {
			t.Errorf("JOURNAL_STREAM=%s: %t", stream, got)
		}
	}
	if isJournal(&bytes.Buffer{}, "1:2") {
		t.Error("a buffer is taken for the journal")
	}
	j := newJournal(t)
	l := New(Options{Stderr: w, JournalStream: fmt.Sprintf("%d:%d", st.Dev, st.Ino), JournalSocket: j.path})
	defer l.Close()
	live(l.Logger)
	if got := j.entry()["ZDD_EVENT"]; got != "live" {
		t.Errorf("got %q", got)
	}
}

// Nobody who logs waits for who reads, however many lines there are; what was lost is told once there is room.
func TestNobodyReads(t *testing.T) {
	t.Parallel()
	const lines = 4 * linesMost
	fill := func(t *testing.T, l *Logger) {
		t.Helper()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range lines {
				l.Info("a line", "number", i, "filler", strings.Repeat("x", 100))
			}
		}()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			t.Fatal("who logs waits")
		}
	}
	t.Run("stderr", func(t *testing.T) {
		t.Parallel()
		for _, format := range []Format{Text, JSON} {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			l := New(Options{Format: format, Stderr: w})
			fill(t, l)
			got := make(chan string, 1)
			go func() {
				all := ""
				for s := bufio.NewScanner(r); s.Scan(); {
					if strings.Contains(s.Text(), lostText) {
						all = s.Text()
					}
				}
				got <- all
			}()
			l.Close()
			w.Close()
			if lost := <-got; !strings.Contains(lost, "lines") || format == JSON && !json.Valid([]byte(lost)) {
				t.Errorf("%s: what was lost is not told: %q", format, lost)
			}
		}
	})
	t.Run("journal", func(t *testing.T) {
		t.Parallel()
		j := newJournal(t)
		l := New(Options{Format: Journal, Stderr: io.Discard, JournalSocket: j.path})
		fill(t, l)
		for {
			if e := j.entry(); e["ZDD_EVENT"] == lostText {
				if e["ZDD_LINES"] == "" || e["PRIORITY"] != "4" {
					t.Errorf("the entry is %q", e)
				}
				break
			}
		}
		l.Close()
	})
	t.Run("never", func(t *testing.T) {
		t.Parallel()
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		l := New(Options{Stderr: w})
		fill(t, l)
		began := time.Now()
		l.Close()
		if took := time.Since(began); took > closeLimit+10*time.Second {
			t.Errorf("closing took %s", took)
		}
		r.Close() // and the goroutine ends
		<-l.writer.done
		w.Close()
	})
}
