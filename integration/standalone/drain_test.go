package standalone

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
)

// A request that takes three more seconds is cut with a drain limit of one, and said to be; with one of twenty it completes.
func TestDrainLimit(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		limit    string
		complete bool
	}{{"1s", false}, {"20s", true}} {
		t.Run(tc.limit, func(t *testing.T) {
			t.Parallel()
			s := start(t, configuration{mode: "v1", sockets: fmt.Sprintf("[[socket]]\nlisten = \"tcp://127.0.0.1:0\"\n[drain]\ntimeout = %q\n", tc.limit)})
			was := s.settled()
			c, err := net.Dial("tcp", s.address())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(20 * time.Second))
			fmt.Fprint(c, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
			s.until("the connection accepted", func(st *control.Status) bool { return st.Sockets[0].Queue == 0 })
			if status, _, stderr := s.reload(); status != 0 {
				t.Fatalf("reload: %s", stderr)
			}
			// A second handoff works while the first old one drains.
			if status, _, stderr := s.reload(); status != 0 {
				t.Fatalf("second reload: %s", stderr)
			}
			answer, err := io.ReadAll(c)
			if complete := err == nil && strings.HasPrefix(string(answer), "HTTP/1.1 200"); complete != tc.complete {
				t.Errorf("complete is %v: %q, %v", complete, answer, err)
			}
			s.settled()
			if cut := strings.Contains(s.log.String(), fmt.Sprintf("killed what was left of a generation\" generation=%d", was.Number)); cut == tc.complete {
				t.Errorf("the log says that it was killed: %v", cut)
			}
		})
	}
}

// Somebody who reads the output stops, and later goes away: handoffs and answers go on.
func TestOutputThatNobodyReads(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	s := start(t, configuration{mode: "v1:chatty", output: w})
	// Full: the service's own writer hangs, and nothing else does.
	s.until("a full pipe", func(*control.Status) bool {
		fds := []unix.PollFd{{Fd: int32(w.Fd()), Events: unix.POLLOUT}}
		n, err := unix.Poll(fds, 0)
		return n == 0 && err == nil
	})
	for range 3 {
		if status, _, stderr := s.reload(); status != 0 {
			t.Fatalf("reload: %s", stderr)
		}
		s.ask("tcp", s.address())
	}
	configuration{mode: "v2"}.write(t, s.dir)
	r.Close()
	if status, _, stderr := s.reload(); status != 0 {
		t.Fatalf("reload with nobody at the other end: %s", stderr)
	}
	s.settled()
	if r := s.ask("tcp", s.address()); r.Version != "v2" {
		t.Errorf("%s answers", r.Version)
	}
}
