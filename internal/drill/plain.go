package drill

import (
	"bytes"
	"errors"
)

// errUnexpected is an answer without what was expected.
var errUnexpected = errors.New("the answer does not have what was expected")

// exchangePlain sends and expects what the configuration says. The connection is used once.
func (c *http1Conn) exchangePlain(id string) answer {
	a := answer{over: true}
	if send := replaceID(c.config.Send, id); len(send) > 0 {
		if _, err := c.conn.Write(send); err != nil {
			return failure(writeKind(err), err)
		}
	} else if len(c.config.Expect) == 0 {
		return a
	}
	var got []byte
	buf := make([]byte, 4096)
	for {
		n, err := c.br.Read(buf)
		got = append(got, buf[:n]...)
		a.who = c.version("", got)
		if n > 0 && bytes.Contains(got, c.config.Expect) && (c.body == nil || a.who != "") {
			return a
		}
		switch {
		case err == nil && len(got) < maxBody:
		case err == nil, len(got) > 0 && c.readKind(err) == Truncated:
			return failure(BadAnswer, errUnexpected)
		default:
			return failure(c.readKind(err), err)
		}
	}
}
