package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// Errors that tell why no supervisor could be asked.
var (
	ErrNotRunning = errors.New("no supervisor answers")
	ErrRefused    = errors.New("the supervisor refuses")
	ErrNothing    = errors.New("nothing to do")
	ErrAmbiguous  = errors.New("several supervisors run")
)

// A Client asks one supervisor.
type Client struct {
	path string
	http http.Client
}

// NewClient returns a client of the control socket at path. Nothing is connected yet.
func NewClient(path string) *Client {
	c := &Client{path: path}
	c.http.Transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		},
		DisableKeepAlives: true,
	}
	return c
}

// Status asks what the supervisor is doing.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	body, err := c.do(ctx, http.MethodGet, "/v1/status")
	if err != nil {
		return nil, err
	}
	defer body.Close()
	st := &Status{Status: &upgrade.Status{}}
	if err := json.NewDecoder(body).Decode(st); err != nil || st.Version == 0 {
		return nil, c.errStranger()
	}
	return st, nil
}

// Reload asks for a handoff and blocks until it has ended; progress is called for each step, when it begins and when it ends. since is upgrade.Request's:
// 0, or for a command that asks once, Started. The error is *upgrade.HandoffError if it failed, and wraps
// upgrade.ErrStopping if the supervisor was stopped meanwhile.
func (c *Client) Reload(ctx context.Context, since uint64, progress func(upgrade.Progress)) (record *upgrade.Record, err error) {
	return c.handoff(ctx, "/v1/reload?since="+strconv.FormatUint(since, 10), progress)
}

// handoff asks for one by a path, and blocks until it has ended.
func (c *Client) handoff(ctx context.Context, path string, progress func(upgrade.Progress)) (record *upgrade.Record, err error) {
	err = c.again(ctx, func() error {
		record, err = c.handoffOnce(ctx, path, progress)
		return err
	})
	return record, err
}

func (c *Client) handoffOnce(ctx context.Context, path string, progress func(upgrade.Progress)) (*upgrade.Record, error) {
	body, err := c.do(ctx, http.MethodPost, path)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	decoder := json.NewDecoder(body)
	for {
		var e Event
		switch err := decoder.Decode(&e); {
		case err != nil && ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return nil, fmt.Errorf("%w any more on %s: it went away before the handoff had ended", ErrNotRunning, c.path)
		case e.Refused != "": // it says all by itself
			return nil, &upgrade.RefusedError{Err: errors.New(e.Refused)}
		case e.Error == upgrade.ErrReplaced.Error():
			return nil, upgrade.ErrReplaced
		case e.Error == upgrade.ErrStopping.Error():
			return nil, fmt.Errorf("%w on %s: %w", ErrRefused, c.path, upgrade.ErrStopping)
		case e.Error != "":
			return nil, fmt.Errorf("%w such requests on %s: %s", ErrNotRunning, c.path, e.Error)
		case e.Result != nil && e.Result.Outcome != upgrade.OutcomeDone:
			return nil, &upgrade.HandoffError{Record: *e.Result}
		case e.Result != nil:
			return e.Result, nil
		case e.Begun != nil:
			progress(*e.Begun)
		case e.Progress != nil:
			progress(*e.Progress)
		}
	}
}

// Ask asks for a handoff and does not wait for it.
func (c *Client) Ask(ctx context.Context) error {
	body, err := c.do(ctx, http.MethodPost, "/v1/reload?wait=false")
	if err != nil {
		return err
	}
	return body.Close()
}

// Promote ends the canary or the soak that is under way, and returns the handoff as it is then. If there is none, the
// error wraps ErrNothing.
func (c *Client) Promote(ctx context.Context) (*upgrade.Record, error) {
	return c.steer(ctx, "/v1/promote")
}

// Abort gives the handoff up that is under way, blocks until all is as it was, and returns its record. If there is
// none, the error wraps ErrNothing.
func (c *Client) Abort(ctx context.Context) (*upgrade.Record, error) {
	return c.steer(ctx, "/v1/abort")
}

func (c *Client) steer(ctx context.Context, path string) (*upgrade.Record, error) {
	body, err := c.do(ctx, http.MethodPost, path)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	record := new(upgrade.Record)
	if err := json.NewDecoder(body).Decode(record); err != nil {
		return nil, fmt.Errorf("%w any more on %s: it went away before it had answered", ErrNotRunning, c.path)
	}
	return record, nil
}

// Upgrade has the supervisor replaced by another one, started from the program as it is on disk, and blocks until that one
// has the service. If there is a reason why not, the error is that.
func (c *Client) Upgrade(ctx context.Context) (*Successor, error) {
	body, err := c.do(ctx, http.MethodPost, "/v1/upgrade")
	if err != nil {
		return nil, err
	}
	defer body.Close()
	successor := new(Successor)
	if err := json.NewDecoder(body).Decode(successor); err != nil {
		return nil, fmt.Errorf("%w any more on %s: it went away before it had answered", ErrNotRunning, c.path)
	}
	return successor, nil
}

const (
	// asksAgain is how often something is asked again of the supervisor that follows the one that was asked.
	asksAgain = 50
	againWait = 20 * time.Millisecond
)

// again does what do does, until it comes to a supervisor that is not just being replaced.
func (c *Client) again(ctx context.Context, do func() error) error {
	for n := 1; ; n++ {
		err := do()
		if !errors.Is(err, upgrade.ErrReplaced) || n == asksAgain {
			return err
		}
		select {
		case <-time.After(againWait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// do sends a request and returns the body of its answer, which the caller closes.
func (c *Client) do(ctx context.Context, method, path string) (body io.ReadCloser, err error) {
	err = c.again(ctx, func() error {
		body, err = c.once(ctx, method, path)
		return err
	})
	return body, err
}

func (c *Client) once(ctx context.Context, method, path string) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://supervisor"+path, nil)
	if err != nil {
		return nil, err
	}
	answer, err := c.http.Do(r)
	switch {
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w on %s; is it started?", ErrNotRunning, c.path)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w: %s belongs to another user; run this as that user or as root", ErrRefused, c.path)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("%w on %s as a supervisor does", ErrNotRunning, c.path)
	}
	if answer.StatusCode >= 300 {
		defer answer.Body.Close()
		why, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
		if len(why) == 0 {
			why = []byte(answer.Status)
		}
		switch strings.TrimSpace(string(why)) {
		case upgrade.ErrReplaced.Error():
			return nil, upgrade.ErrReplaced
		case upgrade.ErrStopping.Error():
			return nil, fmt.Errorf("%w on %s: %w", ErrRefused, c.path, upgrade.ErrStopping)
		}
		if answer.StatusCode == http.StatusNotFound {
			return nil, c.errStranger()
		}
		if answer.StatusCode == http.StatusBadGateway { // it says all by itself
			return nil, errors.New(strings.TrimSpace(string(why)))
		}
		if answer.StatusCode == http.StatusConflict {
			return nil, fmt.Errorf("%w: %s", ErrNothing, strings.TrimSpace(string(why)))
		}
		return nil, fmt.Errorf("%w: %s", ErrRefused, strings.TrimSpace(string(why)))
	}
	return answer.Body, nil
}

// errStranger says that somebody answers who does not know what is asked.
func (c *Client) errStranger() error {
	return fmt.Errorf("%w on %s: what answers there is none, or of another version", ErrNotRunning, c.path)
}

// A Running is a supervisor that answers, or that belongs to another user.
type Running struct{ Name, Path string }

// FindAll returns the supervisors that answer below bases, the directories that hold one runtime directory for each.
func FindAll(bases []string) (found []Running) {
	for _, base := range bases {
		paths, err := filepath.Glob(filepath.Join(base, "*", SocketName))
		if err != nil {
			continue // a base with a pattern in it that is none
		}
		for _, path := range paths {
			c, err := net.Dial("unix", path)
			if err == nil {
				c.Close()
			}
			if err == nil || errors.Is(err, os.ErrPermission) {
				found = append(found, Running{filepath.Base(filepath.Dir(path)), path})
			}
		}
	}
	return found
}

// Find returns the control socket of the only supervisor that answers below bases. With none the error wraps
// ErrNotRunning, and with several ErrAmbiguous.
func Find(bases []string) (string, error) {
	found := FindAll(bases)
	switch len(found) {
	case 0:
		return "", fmt.Errorf("%w below %s; name it with --name or --control", ErrNotRunning, strings.Join(bases, " or "))
	case 1:
		return found[0].Path, nil
	}
	var names []string
	for _, s := range found {
		names = append(names, s.Name)
	}
	return "", fmt.Errorf("%w (%s); name one with --name", ErrAmbiguous, strings.Join(names, ", "))
}
