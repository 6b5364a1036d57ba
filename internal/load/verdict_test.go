package load

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1000, 0)
	at := func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }
	in := func(from, to int) Interval { return Interval{begin.Add(at(from)), begin.Add(at(to))} }
	ok := func(start, end int) Request { return Request{Start: at(start), End: at(end)} }
	bad := func(k Kind, start, end int) Request {
		return Request{Start: at(start), End: at(end), Version: -1, Kind: k}
	}
	two := []string{"1", "2"}
	tests := []struct {
		name     string
		requests []Request
		versions []string
		handoffs []Interval
		want     Verdict
	}{
		{"clean", []Request{ok(0, 15), ok(16, 30)}, two, []Interval{in(10, 20)}, Clean},
		{"request around the handoff", []Request{ok(0, 100)}, two, []Interval{in(10, 20)}, Clean},
		{"lost", []Request{ok(0, 15), bad(Refused, 15, 16)}, two, []Interval{in(10, 20)}, Lost},
		{"lost outside of any handoff", []Request{bad(Closed, 0, 1)}, two, nil, Lost},
		{"no handoff", []Request{ok(0, 15)}, two, nil, Inconclusive},
		{"nothing sent", nil, nil, []Interval{in(10, 20)}, Inconclusive},
		{"no overlap", []Request{ok(0, 9), ok(21, 30)}, two, []Interval{in(10, 20)}, Inconclusive},
		{"second handoff not overlapped", []Request{ok(0, 15)}, []string{"1", "2", "3"}, []Interval{in(10, 20), in(30, 40)}, Inconclusive},
		{"one version only", []Request{ok(0, 15)}, []string{"1"}, []Interval{in(10, 20)}, Inconclusive},
		{"client at fault", []Request{ok(0, 15), bad(Local, 15, 15)}, two, []Interval{in(10, 20)}, Inconclusive},
		{"lost and client at fault", []Request{bad(Timeout, 0, 15), bad(Local, 15, 15)}, two, []Interval{in(10, 20)}, Lost},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := &Result{Begin: begin, Requests: tt.requests, Versions: tt.versions}
			if got := r.Judge(tt.handoffs); got.Verdict != tt.want || got.Reason == "" {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	r := &Result{}
	if got := r.Quantile(0.5); got != 0 {
		t.Errorf("median of nothing is %s", got)
	}
	for i := 100; i > 0; i-- {
		r.Requests = append(r.Requests, Request{Due: time.Second, End: time.Second + time.Duration(i)})
	}
	r.Requests = append(r.Requests, Request{End: time.Hour, Kind: Timeout})
	for p, want := range map[float64]time.Duration{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := r.Quantile(p); got != want {
			t.Errorf("quantile %g is %d, want %d", p, got, want)
		}
	}
}

// TestErrorKinds has the errors that a local server cannot be made to cause at will.
func TestErrorKinds(t *testing.T) {
	t.Parallel()
	call := func(errno unix.Errno) error { return os.NewSyscallError("call", errno) }
	tests := []struct {
		got, want Kind
	}{
		{connectKind(call(unix.ECONNRESET)), ConnectReset},
		{connectKind(call(unix.ETIMEDOUT)), Timeout},
		{connectKind(call(unix.EADDRNOTAVAIL)), Local},
		{connectKind(&localError{call(unix.EMFILE)}), Local},
		{writeKind(call(unix.EPIPE)), WriteReset},
		{writeKind(call(unix.ECONNRESET)), WriteReset},
		{writeKind(call(unix.EAGAIN)), Timeout},
		{writeKind(call(unix.ENOBUFS)), Local},
		{(&conn{read: 0}).readKind(call(unix.ECONNRESET)), ReadReset},
		{(&conn{read: 0}).readKind(call(unix.ENOMEM)), Local},
		{(&conn{read: 8}).readKind(errors.New("malformed HTTP")), BadAnswer},
	}
	for i, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("case %d: %s, want %s", i, tt.got, tt.want)
		}
	}
	for k := range kinds {
		if k.String() == "" {
			t.Errorf("kind %d has no name", k)
		}
	}
}
