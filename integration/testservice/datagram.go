package main

import (
	"fmt"
	"net"
	"sync"
	"time"
)

// datagrams answers each datagram that has a sender with the version and the pid.
type datagrams struct {
	conn    net.PacketConn
	serving sync.WaitGroup
}

func serveDatagrams(given info, c net.PacketConn) *datagrams {
	s := &datagrams{conn: c}
	s.serving.Add(1)
	go func() {
		defer s.serving.Done()
		answer := fmt.Appendf(nil, "%s %d\n", given.Version, given.PID)
		b := make([]byte, 64<<10)
		for {
			_, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			if from != nil && from.String() != "" {
				_, _ = c.WriteTo(answer, from)
			}
		}
	}()
	return s
}

func (s *datagrams) finish() {
	_ = s.conn.SetReadDeadline(time.Now())
	s.serving.Wait()
	s.conn.Close()
}
