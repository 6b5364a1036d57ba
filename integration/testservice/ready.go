package main

import (
	"errors"
	"net"
	"os"
	"time"
)

// sayReady gets ready as the options say, and tells.
func sayReady(o options) error {
	time.Sleep(o.readyAfter)
	if o.neverReady {
		return nil
	}
	if o.readyFD >= 0 {
		f := os.NewFile(uintptr(o.readyFD), "ready")
		if f == nil {
			return errors.New("the descriptor to say ready on is not open")
		}
		_, err := f.WriteString("\n")
		return errors.Join(err, f.Close())
	}
	all := o.notify
	if len(all) == 0 {
		all = messages{"READY=1"}
	}
	// Services that know nothing of notifications run without a socket for them.
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer c.Close()
	for _, message := range all {
		if _, err := c.Write([]byte(message)); err != nil {
			return err
		}
	}
	return nil
}
