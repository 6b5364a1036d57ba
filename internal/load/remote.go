package load

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// event is one line of what [Serve] writes: the first answer of a version, or at last the result or an error.
type event struct {
	Version string    `json:",omitempty"`
	At      time.Time `json:",omitzero"`
	Result  *Result   `json:",omitempty"`
	Error   string    `json:",omitempty"`
}

// Serve is a load client for another process to drive: it reads a [Config] as one line of JSON from in, runs it until in ends,
// and writes its events to out, the result last. It is the whole of the process that [StartRemote] starts.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	var c Config
	if err := json.Unmarshal(line, &c); err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	enc := json.NewEncoder(out)
	c.FirstAnswer = func(version string, at time.Time) {
		// A driver that is gone shows on in, too; there is nobody else to tell.
		_ = enc.Encode(event{Version: version, At: at})
	}
	client, err := Start(ctx, c)
	if err != nil {
		return enc.Encode(event{Error: err.Error()})
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, lines)
	}()
	select {
	case <-ended:
	case <-client.Done():
		// This process ends next, and with it the goroutine that still reads.
	}
	return enc.Encode(event{Result: client.Stop()})
}

// Remote is a load client in another process.
type Remote struct {
	cmd   *exec.Cmd
	stdin io.Closer

	board    // done when the process's output has ended
	versions map[string]bool
	result   *Result
	err      error
}

// StartRemote starts cmd, whose process must run [Serve] on its standard input and output, and lets it send c. Config.FirstAnswer is
// called here. Remote owns the process from then on: [Remote.Stop] must be called.
func StartRemote(cmd *exec.Cmd, c Config) (*Remote, error) {
	if _, err := c.prepare(); err != nil {
		return nil, err
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start load client: %w", err)
	}
	r := &Remote{cmd: cmd, stdin: stdin, board: newBoard(), versions: map[string]bool{}}
	go func() {
		defer close(r.done)
		r.follow(stdout, c.FirstAnswer)
	}()
	// If the process is gone already, its output says so.
	_ = json.NewEncoder(stdin).Encode(c)
	return r, nil
}

// follow reads events until they end.
func (r *Remote) follow(out io.Reader, first func(string, time.Time)) {
	dec := json.NewDecoder(out)
	for {
		var e event
		if err := dec.Decode(&e); err != nil {
			r.mu.Lock()
			if r.result == nil && r.err == nil {
				r.err = fmt.Errorf("load client ended without a result: %w", err)
			}
			r.mu.Unlock()
			return
		}
		if e.Version != "" && first != nil {
			first(e.Version, e.At)
		}
		r.mu.Lock()
		switch {
		case e.Version != "":
			r.versions[e.Version] = true
			r.changedLocked()
		case e.Result != nil:
			r.result = e.Result
		default:
			r.err = errors.New(e.Error)
		}
		r.mu.Unlock()
	}
}

// Version blocks until version has answered a request. Its error is ctx's, or [ErrEnded].
func (r *Remote) Version(ctx context.Context, version string) error {
	return r.await(ctx, func() bool { return r.versions[version] })
}

// Versions blocks until n versions have answered. Its error is ctx's, or [ErrEnded].
func (r *Remote) Versions(ctx context.Context, n int) error {
	return r.await(ctx, func() bool { return len(r.versions) >= n })
}

// await is the board's, with the reason why the process has ended.
func (r *Remote) await(ctx context.Context, condition func() bool) error {
	err := r.board.await(ctx, condition)
	if errors.Is(err, ErrEnded) {
		r.mu.Lock()
		defer r.mu.Unlock()
		err = errors.Join(err, r.err)
	}
	return err
}

// Stop ends the load and its process, and returns what came of it. It blocks until the requests under way are answered or timed out.
func (r *Remote) Stop() (*Result, error) {
	_ = r.stdin.Close()
	<-r.done
	waitErr := r.cmd.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.result == nil {
		return nil, errors.Join(r.err, waitErr)
	}
	return r.result, nil
}
