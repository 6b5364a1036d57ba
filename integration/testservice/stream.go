package main

import (
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"strconv"
	"time"
)

// receipt answers what the request was: its id, and of its body, which it reads to the end, the length and a checksum.
func (h *handler) receipt(w http.ResponseWriter, req *http.Request) {
	sum := crc32.NewIEEE()
	n, err := io.Copy(sum, req.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("X-Id", req.URL.Query().Get("id"))
	w.Header().Set("X-Body", fmt.Sprintf("%d-%08x", n, sum.Sum32()))
}

// pieces answers in so many of them as the query says, with pauses, and reports whether it did. With raw the end of the connection is the
// end of the answer.
func (h *handler) pieces(w http.ResponseWriter, req *http.Request) bool {
	query := req.URL.Query()
	n, err := strconv.Atoi(query.Get("pieces"))
	if err != nil {
		return false
	}
	every, _ := time.ParseDuration(query.Get("every"))
	hold, _ := time.ParseDuration(query.Get("hold"))
	to := io.Writer(w)
	var flush func()
	if query.Get("raw") == "" {
		flush = w.(http.Flusher).Flush
	} else {
		c, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer c.Close()
		fmt.Fprintf(rw, "HTTP/1.1 200 OK\r\nConnection: close\r\nX-Version: %s\r\n\r\n", h.info.Version)
		to, flush = rw, func() { rw.Flush() }
	}
	for i := range n {
		fmt.Fprintf(to, "piece %d\n", i)
		flush()
		if i < n-1 {
			time.Sleep(every)
		}
	}
	time.Sleep(hold)
	return true
}

// early answers before it has read the body, which it reads then, and reports whether that was asked for.
func (h *handler) early(w http.ResponseWriter, req *http.Request) bool {
	if req.URL.Query().Get("early") == "" {
		return false
	}
	control := http.NewResponseController(w)
	if err := control.EnableFullDuplex(); err != nil {
		panic(err)
	}
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
	control.Flush()
	_, _ = io.Copy(io.Discard, req.Body)
	return true
}

// echo says everything back that comes after an upgrade to "echo", and "bye" when the service is stopped, as who speaks WebSocket does. It
// reports whether that was asked for.
func (h *handler) echo(w http.ResponseWriter, req *http.Request) bool {
	if req.Header.Get("Upgrade") != "echo" {
		return false
	}
	c, rw, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	defer c.Close()
	fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\nX-Version: %s\r\n\r\n", h.info.Version)
	rw.Flush()
	h.upgraded.Add(1)
	defer h.upgraded.Done()
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-h.ending:
			fmt.Fprintln(c, "bye")
			c.Close()
		case <-over:
		}
	}()
	_, _ = io.Copy(c, rw)
	return true
}
