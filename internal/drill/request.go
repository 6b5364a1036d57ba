package drill

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// idMark is where a request's id goes.
const idMark = "{id}"

func replaceID(text []byte, id string) []byte {
	return bytes.ReplaceAll(text, []byte(idMark), []byte(id))
}

// request makes requests that differ in their ids alone.
type request struct {
	method string
	target *target
	config *Config
	uri    string
}

func newRequest(c *Config, t *target) (request, error) {
	r := request{method: c.Method, target: t, config: c}
	if r.method == "" {
		r.method = http.MethodGet
		if len(c.Body) > 0 {
			r.method = http.MethodPost
		}
	}
	r.uri = strings.NewReplacer("%7Bid%7D", idMark, "%7bid%7d", idMark).Replace(t.url.RequestURI())
	// What net/http would refuse to send, it refuses here, before the run.
	_, err := r.http("x")
	if err != nil {
		return r, fmt.Errorf("such a request cannot be made: %w", err)
	}
	return r, nil
}

// bytes is the request as HTTP/1.1 has it. With once it says that the connection ends with it.
func (r *request) bytes(id string, once bool) []byte {
	body := replaceID(r.config.Body, id)
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n%s: %s\r\n", r.method, strings.ReplaceAll(r.uri, idMark, id), r.target.host, r.config.IDHeader, id)
	if once {
		b.WriteString("Connection: close\r\n")
	}
	for _, name := range slices.Sorted(maps.Keys(r.config.Header)) {
		if name == "Host" {
			continue // in target.host
		}
		for _, value := range r.config.Header[name] {
			fmt.Fprintf(&b, "%s: %s\r\n", name, strings.ReplaceAll(value, idMark, id))
		}
	}
	if len(body) > 0 || r.method == http.MethodPost || r.method == http.MethodPut || r.method == http.MethodPatch {
		b.WriteString("Content-Length: " + strconv.Itoa(len(body)) + "\r\n")
	}
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}

// http is the request for HTTP/2.
func (r *request) http(id string) (*http.Request, error) {
	body := replaceID(r.config.Body, id)
	u := *r.target.url
	if u.Scheme != "https" {
		u.Scheme = "http"
	}
	if u.Host == "" {
		u.Host = r.target.host
	}
	uri, err := url.ParseRequestURI(strings.ReplaceAll(r.uri, idMark, id))
	if err != nil {
		return nil, err
	}
	u.Path, u.RawPath, u.RawQuery = uri.Path, uri.RawPath, uri.RawQuery
	req, err := http.NewRequest(r.method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if len(body) == 0 {
		req.Body = http.NoBody
	}
	req.GetBody = nil // nothing may be sent twice
	req.Header = r.config.Header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	for _, values := range req.Header {
		for i := range values {
			values[i] = strings.ReplaceAll(values[i], idMark, id)
		}
	}
	req.Header.Set(r.config.IDHeader, id)
	req.Header.Del("Host")
	req.Host = r.target.host
	return req, nil
}
