package main

import (
	"fmt"
	"net/http"
	"os"
)

// A journal is a file with what the service got, in that order: "conn PEER" for a connection (http only) and "GET URI PEER" for a
// request. A nil one writes nothing. The file is never closed.
type journal struct{ file *os.File }

// openLog opens the journal at path, or returns nil if there is to be none. Processes may share one: each line is written at once.
func openLog(path string) (*journal, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	return &journal{f}, nil
}

func (j *journal) connection(peer string) {
	if j != nil {
		fmt.Fprintln(j.file, "conn", peer)
	}
}

func (j *journal) request(req *http.Request) {
	if j != nil {
		fmt.Fprintln(j.file, req.Method, req.RequestURI, req.RemoteAddr)
	}
}
