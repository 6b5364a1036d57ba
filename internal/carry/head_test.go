package carry

import (
	"bufio"
	"bytes"
	"net/http"
	"strings"
	"testing"
)

func TestExamine(t *testing.T) {
	t.Parallel()
	const get = "GET / HTTP/1.1\r\nHost: x\r\n"
	for text, want := range map[string]Beginning{
		"":                                      Nothing,
		"G":                                     Partial,
		"GET ":                                  Partial,
		"GET /a?b=c%20d HTT":                    Partial,
		"GET / HTTP/1.1\r":                      Partial,
		"GET / HTTP/1.1\r\n":                    Partial,
		get:                                     Partial,
		get + "\r":                              Partial,
		get + "\r\n":                            Whole,
		get + "\r\nGET /next":                   Whole,
		"GET / HTTP/1.0\r\n\r\n":                Whole,
		"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n": Whole,
		"M-SEARCH / HTTP/1.1\r\nHost:\r\n\r\n":  Whole,
		"GET /\xc3\xa9 HTTP/1.1\r\nHost:x\r\n\r\n":                         Whole,
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n":          Whole,
		"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: Chunked\r\n\r\n": Whole,

		// Where it ends, one reader may see in another place than the next one.
		get + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n": Malformed,
		get + "Content-Length: 5\r\nContent-Length: 5\r\n\r\n":          Malformed,
		get + "Content-Length: 5, 5\r\n\r\n":                            Malformed,
		get + "Content-Length: +5\r\n\r\n":                              Malformed,
		get + "Content-Length: 0x5\r\n\r\n":                             Malformed,
		get + "Content-Length: 1e1\r\n\r\n":                             Malformed,
		get + "Content-Length:\r\n\r\n":                                 Malformed,
		get + "Content-Length: 9999999999999999999\r\n\r\n":             Malformed,
		get + "Transfer-Encoding: gzip, chunked\r\n\r\n":                Malformed,
		get + "Transfer-Encoding: xchunked\r\n\r\n":                     Malformed,
		get + "Transfer-Encoding: identity\r\n\r\n":                     Malformed,
		get + "Transfer-Encoding:\x0bchunked\r\n\r\n":                   Malformed,
		get + "Transfer-Encoding : chunked\r\n\r\n":                     Malformed,
		get + " Transfer-Encoding: chunked\r\n\r\n":                     Malformed,
		get + "X: y\r\n folded: z\r\n\r\n":                              Malformed,
		get + "X: y\nContent-Length: 5\r\n\r\n":                         Malformed,
		get + "X: y\rContent-Length: 5\r\n\r\n":                         Malformed,
		get + "X: y\x00\r\n\r\n":                                        Malformed,
		get + "X\r\n\r\n":                                               Malformed,
		get + ": y\r\n\r\n":                                             Malformed,
		get + "\n":                                                      Malformed,
		get + "Host: y\r\n\r\n":                                         Malformed,
		"GET / HTTP/1.1\r\n\r\n":                                        Malformed,
		"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n":         Malformed,
		"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n":                       Malformed,

		// No HTTP/1, or not its beginning.
		"get / HTTP/1.1\r\n":                        Foreign,
		"GET / HTTP/1.1\n":                          Foreign,
		"GET / HTTP/2.0\r\n":                        Foreign,
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":          Foreign,
		"GET  / HTTP/1.1\r\n":                       Foreign,
		"GET / x HTTP/1.1\r\n":                      Foreign,
		"GET /\r\n":                                 Foreign,
		"GET /\ta HTTP/1.1\r\n":                     Foreign,
		"\r\nGET / HTTP/1.1\r\n":                    Foreign,
		"HTTP/1.1 200 OK\r\n":                       Foreign,
		"\x16\x03\x01\x02\x00":                      Foreign,
		"\x81\x85abcd":                              Foreign,
		"5\r\nhello\r\n":                            Foreign,
		"ABCDEFGHIJKLMNOPQRSTUVWXYZ":                Foreign,
		"st: x\r\n\r\n":                             Foreign,
		get + strings.Repeat("X: y\r\n", maxHead/6): TooLong,
		"GET /" + strings.Repeat("a", maxHead):      TooLong,
	} {
		if got := Examine([]byte(text)); got != want {
			t.Errorf("%.80q: %d, want %d", text, got, want)
		}
	}
}

// Whatever is found to be a whole head, net/http reads as a request of the same length; what is cut off of it is the beginning of
// one; and what is foreign does not become a request by what comes after it.
func FuzzExamine(f *testing.F) {
	for _, seed := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "\x16\x03\x01", "GET / HTTP/1.0\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
	} {
		f.Add([]byte(seed), 7)
	}
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		if len(b) == 0 {
			return
		}
		at := 1 + int(uint(cut)%uint(len(b)))
		got, before := Examine(b), Examine(b[:at])
		if before == Foreign && got != Foreign || before == Malformed && got != Malformed {
			t.Fatalf("%q is %d, and with more %d", b[:at], before, got)
		}
		if got != Whole {
			return
		}
		if before != Partial && before != Whole {
			t.Fatalf("%q is %d, and with more a request", b[:at], before)
		}
		br := bufio.NewReaderSize(bytes.NewReader(b), len(b)+16)
		req, err := http.ReadRequest(br)
		if err != nil {
			// It is stricter about what a host and a target may be, which is no matter of where a request ends.
			if !strings.Contains(err.Error(), "invalid") && !strings.Contains(err.Error(), "malformed") && !strings.Contains(err.Error(), "parse") {
				t.Fatalf("%q: %v", b, err)
			}
			return
		}
		if read := len(b) - br.Buffered(); read != bytes.Index(b, []byte("\r\n\r\n"))+4 {
			t.Fatalf("%q: the head ends after %d bytes", b, read)
		}
		if req.ContentLength > 0 && len(req.TransferEncoding) > 0 {
			t.Fatalf("%q: two lengths", b)
		}
	})
}
