package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
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
		// A service that the command leaves behind holds on to this: a pipe would be waited for, and break under it.
		out, err := os.CreateTemp("", "zddsupervisor-drill-")
		if err != nil {
			return "", fmt.Errorf("keep what the reload command says: %w", err)
		}
		defer out.Close()
		if err := os.Remove(out.Name()); err != nil {
			return "", fmt.Errorf("keep what the reload command says: %w", err)
		}
		c := exec.CommandContext(ctx, "/bin/sh", "-c", command)
		c.Env = append(os.Environ(), "DRILL_HANDOFF="+strconv.Itoa(n))
		c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
		c.WaitDelay = 5 * time.Second
		c.Stdout, c.Stderr = out, out
		err = c.Run()
		output, readErr := lastOf(out, maxReloadOutput)
		if readErr != nil {
			return "", fmt.Errorf("read what the reload command said: %w", readErr)
		}
		output = strings.TrimSpace(output)
		if err != nil && output != "" {
			err = fmt.Errorf("%w: %s", err, output)
		}
		return output, err
	}
}

// lastOf reads the last n bytes of a file.
func lastOf(f *os.File, n int64) (string, error) {
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	from := max(info.Size()-n, 0)
	text, err := io.ReadAll(io.NewSectionReader(f, from, info.Size()-from))
	return string(text), err
}

// executedLimit bounds the wait for the URL that has the ids.
const executedLimit = 30 * time.Second

// executedSource is where a service reports the ids that it executed.
type executedSource struct {
	url  string
	path string
	from int64 // the log's size before the drill
}

// newExecutedSource makes sure that it can be asked, as far as that can be known before the run. It may block for executedLimit.
func newExecutedSource(ctx context.Context, where string) (*executedSource, error) {
	if strings.HasPrefix(where, "http://") || strings.HasPrefix(where, "https://") {
		s := &executedSource{url: where}
		_, err := s.read(ctx)
		return s, err
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
		ctx, cancel := context.WithTimeout(ctx, executedLimit)
		defer cancel()
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
