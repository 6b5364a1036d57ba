package keptload

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
)

// Serve is a load for another process to drive: it reads a [Config] from in, runs it until in ends, and writes its [Result] to out. It is the
// whole of the process that [StartRemote] starts.
func Serve(in io.Reader, out io.Writer) error {
	dec := json.NewDecoder(in)
	var c Config
	if err := dec.Decode(&c); err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	l := Start(c)
	_, err := io.Copy(io.Discard, in)
	return errors.Join(err, json.NewEncoder(out).Encode(l.Stop()))
}

// Remote is a load in another process.
type Remote struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout io.Reader
}

// StartRemote starts cmd, whose process must run [Serve] on its standard input and output, and lets it run c. Remote owns the process from
// then on: [Remote.Stop] must be called, once.
func StartRemote(cmd *exec.Cmd, c Config) (*Remote, error) {
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
	// If the process is gone already, its output says so.
	_ = json.NewEncoder(stdin).Encode(c)
	return &Remote{cmd, stdin, stdout}, nil
}

// Stop ends the load and returns what came of it. It blocks until the requests under way are answered or timed out.
func (r *Remote) Stop() (result Result, err error) {
	_ = r.stdin.Close()
	err = json.NewDecoder(r.stdout).Decode(&result)
	_, _ = io.Copy(io.Discard, r.stdout)
	return result, errors.Join(err, r.cmd.Wait())
}
