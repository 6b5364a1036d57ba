package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// handler answers requests.
type handler struct {
	info info
	work time.Duration
}

// body makes the answer to a request, after the time that it takes.
func (h *handler) body(req *http.Request) []byte {
	delay, _ := time.ParseDuration(req.URL.Query().Get("sleep"))
	time.Sleep(h.work + delay)
	if req.URL.Path == "/info" {
		b, err := json.Marshal(h.info)
		if err != nil {
			return []byte(err.Error())
		}
		return b
	}
	return fmt.Appendf(nil, "%s %d\n", h.info.Version, h.info.PID)
}

// answer writes the whole answer to a request. With last it says that the connection ends.
func (h *handler) answer(w io.Writer, req *http.Request, last bool) error {
	body := h.body(req)
	connection := "keep-alive"
	if last {
		connection = "close"
	}
	head := fmt.Sprintf("HTTP/1.1 200 OK\r\nConnection: %s\r\nX-Version: %s\r\nX-Pid: %d\r\nContent-Length: %d\r\n\r\n",
		connection, h.info.Version, h.info.PID, len(body))
	_, err := w.Write(append([]byte(head), body...))
	return err
}

// ServeHTTP is the same for net/http.
func (h *handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body := h.body(req)
	w.Header().Set("X-Version", h.info.Version)
	w.Header().Set("X-Pid", strconv.Itoa(h.info.PID))
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
}
