package probe

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// A Target is who is asked; *upgrade.Target is one.
type Target interface {
	// Dial opens a connection through a socket, by name.
	Dial(ctx context.Context, socket string) (net.Conn, error)
	// Accept blocks until a connection through a socket was accepted.
	Accept(ctx context.Context, socket string) error
}

// HTTP is a GET request over HTTP/1.1.
type HTTP struct {
	Socket string // the name of the socket that it goes to
	Path   string // with the query, if there is one
	Host   string // of the Host header; "" stands for the socket's address
	Status int    // that is expected; 0 stands for any 2xx or 3xx
}

// answerSize is how much of the answer's body is read: a server that is cut off may log it as an error.
const answerSize = 64 << 10

// Ask sends the request over a connection of its own, once, and blocks until it has the answer or ctx ends. The error
// says what was wrong with the answer.
func (h HTTP) Ask(ctx context.Context, t Target) error {
	c, err := t.Dial(ctx, h.Socket)
	if err != nil {
		return fmt.Errorf("%s: %w", h, err)
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	status, err := h.exchange(c)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: there was no answer", h)
	case err != nil:
		return fmt.Errorf("%s: %w", h, err)
	case h.Status != 0 && status != h.Status:
		return fmt.Errorf("%s: the status is %d and not %d", h, status, h.Status)
	case h.Status == 0 && (status < 200 || status > 399):
		return fmt.Errorf("%s: the status is %d and not 2xx or 3xx", h, status)
	}
	return nil
}

// exchange sends the request and returns the status of the answer.
func (h HTTP) exchange(c net.Conn) (status int, err error) {
	r, err := http.NewRequest(http.MethodGet, "http://"+cmp.Or(h.Host, c.RemoteAddr().String())+h.Path, nil)
	if err != nil {
		return 0, err
	}
	r.Close = true
	r.Header.Set("User-Agent", "zddsupervisor-probe")
	if err := r.Write(c); err != nil {
		return 0, fmt.Errorf("send the request: %w", err)
	}
	in := bufio.NewReader(c)
	for {
		answer, err := http.ReadResponse(in, r)
		if err != nil {
			return 0, fmt.Errorf("read the answer: %w", err)
		}
		_, _ = io.CopyN(io.Discard, answer.Body, answerSize) // the status is what counts
		answer.Body.Close()
		if answer.StatusCode >= 200 || answer.StatusCode == http.StatusSwitchingProtocols {
			return answer.StatusCode, nil
		}
	}
}

// String names the request for messages.
func (h HTTP) String() string { return fmt.Sprintf("GET %s on socket %s", h.Path, h.Socket) }
