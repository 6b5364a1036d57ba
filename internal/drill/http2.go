package drill

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"time"

	h2 "golang.org/x/net/http2"
)

// http2Conn is an HTTP/2 connection. Its ClientConn is used directly: it is http2.Transport that sends requests again.
type http2Conn struct {
	*dialer
	stream *stream
	client *h2.ClientConn
	failed atomic.Bool // a request
}

func newHTTP2(d *dialer, s *stream) (*http2Conn, error) {
	// The deadline was the handshake's; each request has its own.
	if err := s.socket.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	transport := &h2.Transport{AllowHTTP: true, DisableCompression: true}
	client, err := transport.NewClientConn(s.conn)
	if err != nil {
		return nil, err
	}
	client.ReserveNewRequest() // before the service's settings have come it can only succeed
	return &http2Conn{dialer: d, stream: s, client: client}, nil
}

func (c *http2Conn) reserve() readiness {
	if c.client.ReserveNewRequest() {
		return reserved
	}
	if state := c.client.State(); state.Closing || state.Closed {
		return ended
	}
	return busy
}

func (c *http2Conn) release() bool { return true }

func (c *http2Conn) broken() bool { return c.failed.Load() }

func (c *http2Conn) close() { c.client.Close() }

func (c *http2Conn) exchange(id string, deadline time.Time) answer {
	a := c.roundTrip(id, deadline)
	if a.over {
		c.failed.Store(true)
	}
	return a
}

func (c *http2Conn) roundTrip(id string, deadline time.Time) answer {
	req, err := c.request.http(id)
	if err != nil {
		return failure(Local, err)
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	resp, err := c.client.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return failure(http2Kind(err, false), err)
	}
	defer resp.Body.Close()
	a, err := c.judge(resp)
	if err != nil {
		return failure(http2Kind(err, true), err)
	}
	return a
}

// http2Kind tells what err means; begun says that the answer's header was there.
func http2Kind(err error, begun bool) Kind {
	var stream h2.StreamError
	var goAway h2.GoAwayError
	switch {
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return Timeout
	case errors.As(err, &stream), errors.As(err, &goAway), strings.Contains(err.Error(), "GOAWAY"):
		return StreamRefused
	case errno(err) != 0:
		return ReadReset
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), strings.Contains(err.Error(), "client connection"):
		if begun {
			return Truncated
		}
		return Closed
	}
	return BadAnswer
}
