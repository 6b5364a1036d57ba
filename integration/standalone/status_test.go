package standalone

import (
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// In the middle of a canary whose new version accepts nothing, the status shows each socket's mode, and each generation's share,
// queue and connections. After an abort, what has waited for the new version is answered by the old one.
func TestStatusOfSteering(t *testing.T) {
	t.Parallel()
	const keptAlive, queued = 2, 3
	unix := fmt.Sprintf("[[socket]]\nname = \"local\"\nlisten = \"unix://%s/s.sock\"\n", shortDir(t))
	sockets := func(c configuration) configuration {
		c.sockets += unix
		return c
	}
	s := start(t, sockets(tested("v0")))
	for range keptAlive {
		s.keep("v0")
	}
	reload := s.reloadTo(sockets(tested("v1", "-serve-after=10m")).with(canary("25%:10m")))
	fresh := s.at(upgrade.Sharing)
	var clients []net.Conn
	for s.seat(2).Queue < queued {
		c, err := net.DialTimeout("tcp", s.address(), 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		clients = append(clients, c)
	}
	accepted := keptAlive + len(clients) - queued
	s.until("all accepted", func(st *control.Status) bool { return st.Generations[0].Connections == accepted })

	status, stdout, stderr := command(t, "status", "--json", "--control", s.control())
	if status != 0 {
		t.Fatalf("status: %s", stderr)
	}
	var st control.Status
	if err := json.Unmarshal([]byte(stdout), &st); err != nil {
		t.Fatal(err)
	}
	main, local := st.Sockets[0], st.Sockets[1]
	want := []upgrade.SeatStatus{{Generation: 1, Share: 0.75, Connections: accepted}, {Generation: 2, Share: 0.25, Queue: queued}}
	if fmt.Sprint(main.Seats) != fmt.Sprint(want) || main.Mode != fdpass.Steered || main.Queue != queued {
		t.Errorf("socket main is %+v, want %d in its queue, and the seats %+v", main, queued, want)
	}
	if len(local.Seats) != 0 || local.Mode != fdpass.Shared {
		t.Errorf("socket local is %+v", local)
	}
	if g := st.Generations; g[0].Connections != accepted || g[1].Connections != 0 {
		t.Errorf("generations: %+v", g)
	}
	if st.Note == "" || st.Phase != "canary" {
		t.Errorf("at step %s: %q", st.Phase, st.Note)
	}

	status, stdout, stderr = command(t, "status", "--control", s.control())
	if status != 0 {
		t.Fatalf("status: %s", stderr)
	}
	live := s.live()
	for _, row := range [][]string{
		{"1", "-", "live", strconv.Itoa(live.PID), "1", strconv.Itoa(accepted)},
		{"2", "-", "new", strconv.Itoa(fresh.PID), "1", "0"},
		{"main", main.Address, "steered", fmt.Sprintf("%d/%d", queued, main.QueueLimit), "generation", "1", "(75%),", "generation", "2", "(25%)"},
		{"local", local.Address, "shared", fmt.Sprintf("0/%d", local.QueueLimit), "whoever", "accepts", "first"},
	} {
		if !hasRow(stdout, row) {
			t.Errorf("no row %q in\n%s", row, stdout)
		}
	}
	if !strings.Contains(stdout, ": generation 2 gets 25% of new connections for 10m0s\n") || !strings.Contains(stdout, "is at step canary for") {
		t.Errorf("what the handoff is doing is not in\n%s", stdout)
	}

	s.abort()
	reload.mustFail("aborted")
	for _, c := range clients {
		newKept(t, c).answeredBy("v0")
	}
	s.settled()
	after := s.until("the status", func(*control.Status) bool { return true })
	if m := after.Sockets[0]; m.Forwarded != queued || m.Lost != 0 || len(m.Seats) != 1 {
		t.Errorf("afterwards socket main is %+v, want %d connections passed on", m, queued)
	}
}

// seat is the seat that a generation has on the first socket.
func (s *supervisor) seat(generation int) upgrade.SeatStatus {
	s.t.Helper()
	for _, seat := range s.until("a socket", func(st *control.Status) bool { return len(st.Sockets) > 0 }).Sockets[0].Seats {
		if seat.Generation == generation {
			return seat
		}
	}
	return upgrade.SeatStatus{}
}

// hasRow reports whether a line of a table begins with these words.
func hasRow(table string, row []string) bool {
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) >= len(row) && strings.Join(fields[:len(row)], " ") == strings.Join(row, " ") {
			return true
		}
	}
	return false
}
