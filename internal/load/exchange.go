package load

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/sys/unix"
)

// maxBody bounds how much of an answer is looked at for the version; the rest is read and forgotten.
const maxBody = 1 << 20

// answer is what came of one exchange.
type answer struct {
	kind    Kind
	version string
	err     error // nil only for OK
	close   bool  // the connection is of no more use
}

// exchange sends the request on c and reads the whole answer.
func exchange(p *plan, c *conn) answer {
	c.deadline = time.Now().Add(p.Timeout)
	c.read = c.br.Buffered()
	if err := c.send(p.request); err != nil {
		return answer{kind: writeKind(err), err: err, close: true}
	}
	if p.greeted != nil {
		return greeting(p, c)
	}
	resp, err := http.ReadResponse(c.br, nil)
	if err != nil {
		return answer{kind: c.readKind(err), err: err, close: true}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
	}
	if err != nil {
		return answer{kind: c.readKind(err), err: err, close: true}
	}
	a := answer{version: resp.Header.Get(p.VersionHeader), close: resp.Close || !p.KeepAlive}
	if a.version == "" && p.body != nil {
		if m := p.body.FindSubmatch(body); m != nil {
			a.version = string(m[1])
		}
	}
	if resp.StatusCode/100 != 2 {
		a.kind, a.err = BadAnswer, fmt.Errorf("status %s", resp.Status)
	}
	return a
}

// greeting reads from c until the service has said its line.
func greeting(p *plan, c *conn) answer {
	for c.read < maxBody {
		line, err := c.br.ReadString('\n')
		if m := p.greeted.FindStringSubmatch(line); m != nil {
			return answer{version: m[1], close: true}
		}
		if err != nil {
			return answer{kind: c.readKind(err), err: err, close: true}
		}
	}
	return answer{kind: BadAnswer, err: errors.New("another greeting"), close: true}
}

func writeKind(err error) Kind {
	switch {
	case errors.Is(err, unix.EPIPE), errors.Is(err, unix.ECONNRESET):
		return WriteReset
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR), errors.Is(err, unix.ETIMEDOUT):
		return Timeout
	}
	return Local
}

// readKind tells what err means, which came of reading an answer. The parser may have made something else of the connection's own
// error: a header line that was cut off is malformed for it.
func (c *conn) readKind(err error) Kind {
	if c.err != nil {
		err = c.err
	}
	var errno unix.Errno
	switch {
	case errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE):
		return ReadReset
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ETIMEDOUT):
		return Timeout
	case errors.As(err, &errno):
		return Local
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		if c.read == 0 {
			return Closed
		}
		return Truncated
	}
	return BadAnswer
}
