package carry

import (
	"testing"
	"time"
)

// Behind the dam nothing arrives, not even for who sleeps in recv(2), and the other way all goes on; with it taken away, what was sent comes.
func TestDam(t *testing.T) {
	t.Parallel()
	client, server, raw := pair(t)
	if filtered(raw) || isDammed(raw) {
		t.Fatal("a new connection has a filter")
	}
	before := dropped(raw)
	if err := setDam(raw); err != nil {
		t.Fatal(err)
	}
	if !filtered(raw) || !isDammed(raw) {
		t.Error("the dam does not show")
	}
	got := make(chan string, 1)
	go func() {
		buf := make([]byte, 100)
		n, _ := server.Read(buf)
		got <- string(buf[:n])
	}()
	write(t, client, "GET")
	for end := time.Now().Add(10 * time.Second); dropped(raw) == before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nothing was dropped")
		}
	}
	if s, err := takeSample(raw); err != nil || s.received != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	write(t, server, "answer")
	var buf [10]byte
	if n, err := client.Read(buf[:]); string(buf[:n]) != "answer" {
		t.Errorf("%q, %v", buf[:n], err)
	}
	// Its kernel says that it got it, although it has not got its own bytes through.
	sampled(t, raw, "an acknowledgment", func(s sample) bool { return s.unacked == 0 && s.written == 6 })
	select {
	case text := <-got:
		t.Errorf("%q was read", text)
	default:
	}
	if err := liftDam(raw); err != nil {
		t.Fatal(err)
	}
	if text := <-got; text != "GET" {
		t.Errorf("%q", text)
	}
	if filtered(raw) {
		t.Error("there is a filter left")
	}
}

// The end of the client's passes the dam once it has nothing more to send.
func TestDamLetsTheEndPass(t *testing.T) {
	t.Parallel()
	client, _, raw := pair(t)
	if err := setDam(raw); err != nil {
		t.Fatal(err)
	}
	client.CloseWrite()
	sampled(t, raw, "the end", func(s sample) bool { return s.state == closeWait })
}
