package fdpass

import (
	"net"
	"strings"
	"testing"
	"time"
)

// Close does not wait for a connection that was passed on to where nobody
// accepts it.
func TestCloseCutsRelays(t *testing.T) {
	t.Parallel()
	bound, _, err := Open([]Spec{{Network: TCP, Address: "127.0.0.1:0"}}, OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := bound[0].Socket
	defer s.Close()
	join := func(gen int) {
		t.Helper()
		fd, err := s.Join(gen, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { fd.Close() }) // the generation has it, and does not accept
		if err := s.Cutover(gen); err != nil {
			t.Fatal(err)
		}
	}
	join(1)
	c, err := net.Dial("tcp", strings.TrimPrefix(s.Addr(), "tcp://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	join(2)
	if err := s.Leave(1); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(deadline); ; time.Sleep(time.Millisecond) {
		stats, err := s.Stats()
		if err != nil {
			t.Fatal(err)
		}
		if stats.Forwarded == 1 && stats.Queue == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the connection was not passed on: %+v", stats)
		}
	}
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(deadline):
		t.Error("Close waits for a generation that does not accept")
	}
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("the client read %d bytes", n)
	}
}
