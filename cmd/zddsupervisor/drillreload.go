package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// maxReloadOutput is how much of the end of a reload command's output is kept.
const maxReloadOutput = 16 << 10

// shellReload deploys by a shell command. If ctx ends it is asked to end, and killed if it does not.
func shellReload(command string) func(ctx context.Context, n int) (string, error) {
	return func(ctx context.Context, n int) (string, error) {
		c := exec.CommandContext(ctx, "/bin/sh", "-c", command)
		c.Env = append(os.Environ(), "DRILL_HANDOFF="+strconv.Itoa(n))
		c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
		c.WaitDelay = 5 * time.Second
		var out tailBuffer
		c.Stdout, c.Stderr = &out, &out
		err := c.Run()
		// What it has started and left in the background may keep its output open; that is no failure.
		if errors.Is(err, exec.ErrWaitDelay) {
			err = nil
		}
		output := strings.TrimSpace(string(out.b))
		if err != nil && output != "" {
			err = fmt.Errorf("%w: %s", err, output)
		}
		return output, err
	}
}

// tailBuffer keeps the end of what is written to it.
type tailBuffer struct{ b []byte }

func (t *tailBuffer) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if over := len(t.b) - maxReloadOutput; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

// executedSource is where a service reports the ids that it executed.
type executedSource struct {
	url  string
	path string
	from int64 // the log's size before the drill
}

func newExecutedSource(where string) (*executedSource, error) {
	if strings.HasPrefix(where, "http://") || strings.HasPrefix(where, "https://") {
		_, err := url.Parse(where)
		return &executedSource{url: where}, err
	}
	s := &executedSource{path: where}
	switch info, err := os.Stat(where); {
	case err == nil:
		s.from = info.Size()
	case !errors.Is(err, os.ErrNotExist): // the first request may make it
		return nil, err
	}
	return s, nil
}

// read returns the lines that may have an id.
func (s *executedSource) read(ctx context.Context) ([]string, error) {
	if s.url != "" {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
		if err != nil {
			return nil, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("%s: %s", s.url, resp.Status)
		}
		return idLines(resp.Body)
	}
	f, err := os.Open(s.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() >= s.from { // else it was begun anew
		if _, err := f.Seek(s.from, io.SeekStart); err != nil {
			return nil, err
		}
	}
	return idLines(f)
}

// idLines are the lines with something that looks like a drill's id.
func idLines(r io.Reader) ([]string, error) {
	var lines []string
	br := bufio.NewReader(r)
	for {
		line, err := br.ReadString('\n')
		if strings.Contains(line, "drill-") {
			lines = append(lines, strings.TrimSpace(line))
		}
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
