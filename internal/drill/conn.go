package drill

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"time"
)

// answer is what came of one request on a connection.
type answer struct {
	kind Kind
	err  error  // nil only for OK
	who  string // answered; "" if that is not known
	// over tells that the connection is of no more use.
	over bool
}

// conn is a connection to the service.
type conn interface {
	// reserve takes the connection for one request, if that is possible.
	reserve() readiness
	// exchange sends the reserved connection's request and reads the whole answer.
	exchange(id string, deadline time.Time) answer
	// release ends the reservation. It reports whether others may use the connection at the same time.
	release() (shared bool)
	// broken tells that a request on it has failed, so that its end is no surprise.
	broken() bool
	close()
}

// readiness is what a connection is ready for.
type readiness uint8

const (
	reserved readiness = iota // now
	busy                      // it has all the requests that it can have
	ended                     // the service has ended it
)

// failure is an answer that did not come.
func failure(kind Kind, err error) answer { return answer{kind: kind, err: err, over: true} }

// dialer opens connections.
type dialer struct {
	*target
	request request
	body    *regexp.Regexp
	config  *Config
}

// dial opens a connection, reserved for one request; with once it gets no other. It makes one attempt.
func (d *dialer) dial(deadline time.Time, once bool) (conn, Kind, error) {
	s, err := connect(d.address, deadline)
	if err != nil {
		return nil, connectKind(err), err
	}
	stream := &stream{socket: s, conn: s}
	if d.tls != nil {
		// A deadline that cannot be set would show in the handshake.
		_ = s.SetDeadline(deadline)
		secure := tls.Client(s, d.tls)
		if err := secure.HandshakeContext(context.Background()); err != nil {
			s.Close()
			kind := Handshake
			if isTimeout(err) {
				kind = Timeout
			}
			return nil, kind, fmt.Errorf("TLS handshake: %w", err)
		}
		stream.conn = secure
	}
	if d.protocol == http2 {
		c, err := newHTTP2(d, stream)
		if err != nil {
			s.Close()
			return nil, stream.readKind(err), err
		}
		return c, OK, nil
	}
	stream.br = bufio.NewReader(stream)
	return &http1Conn{stream: stream, dialer: d, busy: true, once: once}, OK, nil
}

// stream is a connection's bytes, with or without TLS.
type stream struct {
	socket   *socket
	conn     net.Conn // with TLS, where there is TLS
	br       *bufio.Reader
	received int // bytes of the present answer
}

// Read reads for the bufio.Reader.
func (s *stream) Read(b []byte) (int, error) {
	n, err := s.conn.Read(b)
	s.received += n
	return n, err
}

func (s *stream) close() { s.socket.Close() }

// usable looks whether the service has ended the connection, or has sent what nobody asked for: its next answer could not be
// told from that.
func (s *stream) usable() bool {
	_ = s.socket.SetDeadline(time.Time{})
	s.socket.dontWait = true
	_, err := s.br.Peek(1)
	s.socket.dontWait = false
	return errors.Is(err, errWouldBlock)
}

// readKind tells what err means, which came of reading an answer. The parser may have made something else of the
// connection's own error: a header line that was cut off is malformed for it.
func (s *stream) readKind(err error) Kind {
	if s.socket.err != nil {
		err = s.socket.err
	}
	switch {
	case isTimeout(err):
		return Timeout
	case errno(err) != 0:
		// ECONNRESET, EPIPE, or what the network says of a host that is gone.
		return ReadReset
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		if s.received == 0 {
			return Closed
		}
		return Truncated
	}
	return BadAnswer
}

// http1Conn speaks HTTP/1.1 or a plain protocol. One request at a time has it.
type http1Conn struct {
	*stream
	*dialer
	busy bool
	once bool // it has one request alone, and says so
}

func (c *http1Conn) reserve() readiness {
	switch {
	case c.busy:
		return busy
	case !c.usable():
		return ended
	}
	c.busy = true
	return reserved
}

// broken is false: one that is broken is closed when it is released.
func (c *http1Conn) broken() bool { return false }

func (c *http1Conn) release() bool {
	c.busy = false
	return false
}

func (c *http1Conn) exchange(id string, deadline time.Time) answer {
	c.socket.err, c.received = nil, c.br.Buffered()
	if err := c.socket.SetDeadline(deadline); err != nil {
		return failure(Local, err)
	}
	if c.protocol == plain {
		return c.exchangePlain(id)
	}
	if _, err := c.conn.Write(c.request.bytes(id, c.once)); err != nil {
		return failure(writeKind(err), err)
	}
	for {
		resp, err := http.ReadResponse(c.br, &http.Request{Method: c.request.method})
		if err != nil {
			return failure(c.readKind(err), err)
		}
		if resp.StatusCode/100 == 1 && resp.StatusCode != http.StatusSwitchingProtocols {
			continue // the real answer follows
		}
		a, err := c.judge(resp)
		if err != nil {
			return failure(c.readKind(err), err)
		}
		a.over = resp.Close
		return a
	}
}

// judge reads the whole answer and tells what it is. The error is of reading it.
func (d *dialer) judge(resp *http.Response) (answer, error) {
	var body []byte
	var err error
	if d.body != nil {
		body, err = io.ReadAll(io.LimitReader(resp.Body, maxBody))
	}
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
	}
	if err != nil {
		return answer{}, err
	}
	a := answer{who: who(d.version(resp.Header.Get(d.config.VersionHeader), body), resp.Header.Get(d.config.PIDHeader))}
	if class := resp.StatusCode / 100; class != 2 && class != 3 {
		a.kind, a.err = BadStatus, fmt.Errorf("status %s", resp.Status)
	}
	return a, nil
}

// version is the header's, else what the pattern finds in the body, else "".
func (d *dialer) version(header string, body []byte) string {
	if header == "" && d.body != nil {
		if m := d.body.FindSubmatch(body); m != nil {
			return string(m[1])
		}
	}
	return header
}

// who names what answered.
func who(version, pid string) string {
	switch {
	case pid == "":
		return version
	case version == "":
		return "pid " + pid
	}
	return version + ", pid " + pid
}
