package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// handler answers requests.
type handler struct {
	info       info
	work       time.Duration
	journal    *journal
	healthFile string
	asked      atomic.Int64 // requests that asked for a status
	ending     chan struct{}
	upgraded   sync.WaitGroup
}

// body makes the answer to a request and its status, after the time that it takes.
func (h *handler) body(req *http.Request) (status int, body []byte) {
	h.journal.request(req)
	query := req.URL.Query()
	delay, _ := time.ParseDuration(query.Get("sleep"))
	time.Sleep(h.work + delay)
	while{file: query.Get("wait")}.wait()
	status = http.StatusOK
	if wanted, err := strconv.Atoi(query.Get("status")); err == nil {
		from, _ := strconv.ParseInt(cmp.Or(query.Get("from"), "1"), 10, 64)
		until, err := strconv.ParseInt(query.Get("until"), 10, 64)
		if n := h.asked.Add(1); n >= from && (err != nil || n <= until) {
			status = wanted
		}
	}
	switch req.URL.Path {
	case "/bind":
		if err := bindOnce(query.Get("address")); err != nil {
			return http.StatusInternalServerError, []byte(err.Error())
		}
	case "/health":
		if text, err := os.ReadFile(h.healthFile); err == nil {
			status, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		}
	case "/info":
		b, err := json.Marshal(h.info)
		if err != nil {
			b = []byte(err.Error())
		}
		return status, b
	}
	return status, fmt.Appendf(nil, "%s %d\n", h.info.Version, h.info.PID)
}

// bindOnce binds an address, as a service may at any time, and gives it back.
func bindOnce(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return l.Close()
}

// answer writes the whole answer to a request. With last it says that the connection ends.
func (h *handler) answer(w io.Writer, req *http.Request, last bool) error {
	status, body := h.body(req)
	connection := "keep-alive"
	if last {
		connection = "close"
	}
	head := fmt.Sprintf("HTTP/1.1 %d %s\r\nConnection: %s\r\nX-Version: %s\r\nX-Pid: %d\r\nContent-Length: %d\r\n\r\n",
		status, http.StatusText(status), connection, h.info.Version, h.info.PID, len(body))
	_, err := w.Write(append([]byte(head), body...))
	return err
}

// ServeHTTP is the same for net/http.
func (h *handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("X-Version", h.info.Version)
	w.Header().Set("X-Pid", strconv.Itoa(h.info.PID))
	if h.echo(w, req) || h.early(w, req) {
		return
	}
	h.receipt(w, req)
	status, body := h.body(req)
	if h.pieces(w, req) {
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
