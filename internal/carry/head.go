package carry

import (
	"bytes"
	"strings"
)

// A Beginning is what bytes that wait unread look like from their first one on.
type Beginning int

const (
	Nothing   Beginning = iota // there are none
	Partial                    // the beginning of a request's head, which is not whole
	Whole                      // a request with its whole head, of which it is certain where its body ends
	Malformed                  // a request line, and a head that two readers may understand in two ways
	TooLong                    // a head that is longer than maxHead
	Foreign                    // no request of HTTP/1
)

const (
	maxHead   = 64 << 10 // bytes of a head
	maxMethod = 24
)

// Examine says what b begins with. It is stricter than servers are: what one may take for the end of a request, and
// another not, is malformed. A head that is whole is good for any reader.
func Examine(b []byte) Beginning {
	if len(b) == 0 {
		return Nothing
	}
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		switch {
		case !beginsRequestLine(b):
			return Foreign
		case len(b) >= maxHead:
			return TooLong
		}
		return Partial
	}
	line, ok := bytes.CutSuffix(b[:end], []byte("\r"))
	minor, valid := requestLine(line)
	if !ok || !valid {
		return Foreign
	}
	if bytes.HasPrefix(line, []byte("CONNECT ")) {
		return Malformed
	}
	var f framing
	for rest := b[end+1:]; ; {
		end := bytes.IndexByte(rest, '\n')
		read := len(b) - len(rest)
		switch {
		case end < 0 && len(b) >= maxHead, end >= 0 && read+end >= maxHead:
			return TooLong
		case end < 0:
			return Partial
		}
		line, ok := bytes.CutSuffix(rest[:end], []byte("\r"))
		switch {
		case !ok:
			return Malformed
		case len(line) == 0:
			if !f.certain(minor) {
				return Malformed
			}
			return Whole
		case !f.header(line):
			return Malformed
		}
		rest = rest[end+1:]
	}
}

// beginsRequestLine reports whether b, which has no line's end, may be the beginning of a request line.
func beginsRequestLine(b []byte) bool {
	method, rest, whole := bytes.Cut(b, []byte(" "))
	switch {
	case len(method) == 0 && whole, len(method) > maxMethod:
		return false
	}
	for _, c := range method {
		if (c < 'A' || c > 'Z') && c != '-' {
			return false
		}
	}
	target, version, whole := bytes.Cut(rest, []byte(" "))
	if !isTarget(target) && (whole || len(target) > 0) {
		// The line may end in the middle of the version, with a CR.
		return false
	}
	if !whole {
		return true
	}
	const longest = "HTTP/1.1\r"
	return len(version) <= len(longest) &&
		(strings.HasPrefix(longest, string(version)) || strings.HasPrefix("HTTP/1.0\r", string(version)))
}

// requestLine reads a whole request line without its end.
func requestLine(line []byte) (minor int, ok bool) {
	parts := strings.Split(string(line), " ")
	if len(parts) != 3 || !beginsRequestLine(line) || !isTarget([]byte(parts[1])) {
		return 0, false
	}
	switch parts[2] {
	case "HTTP/1.0":
		return 0, true
	case "HTTP/1.1":
		return 1, true
	}
	return 0, false
}

// isTarget reports whether t can be the target of a request. Some clients do not encode what is not ASCII.
func isTarget(t []byte) bool {
	for _, c := range t {
		if c <= ' ' || c == 0x7f {
			return false
		}
	}
	return len(t) > 0
}

// framing is what the headers say about where the request ends.
type framing struct {
	lengths, codings, hosts int
}

// header takes a line, and reports whether it is a header that all readers understand alike.
func (f *framing) header(line []byte) bool {
	name, value, ok := bytes.Cut(line, []byte(":"))
	if !ok || len(name) == 0 {
		return false
	}
	for _, c := range name {
		if !isToken(c) {
			return false // a blank too: of a folded line, or before the colon
		}
	}
	for _, c := range value {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	text := strings.Trim(string(value), " \t")
	switch strings.ToLower(string(name)) {
	case "content-length":
		f.lengths++
		return isLength(text)
	case "transfer-encoding":
		f.codings++
		return strings.EqualFold(text, "chunked")
	case "host":
		f.hosts++
	}
	return true
}

// certain reports whether it is certain where the request ends.
func (f *framing) certain(minor int) bool {
	if minor == 0 {
		return f.lengths <= 1 && f.codings == 0 && f.hosts <= 1
	}
	return f.lengths+f.codings <= 1 && f.hosts == 1
}

func isLength(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return len(text) > 0 && len(text) <= 18
}

func isToken(c byte) bool {
	switch {
	case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		return true
	}
	return c != 0 && strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
