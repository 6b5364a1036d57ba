package standalone

import (
	"fmt"
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/internal/load"
)

// Through 20 handoffs, with a service that finishes what it has accepted, not one request on a new connection fails.
func TestNothingLost(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			c := configuration{mode: "v0"}
			if network == "unix" {
				c.sockets = fmt.Sprintf("[[socket]]\nname = \"main\"\nlisten = \"unix://%s/s.sock\"\n", shortDir(t))
			}
			result, handoffs := throughHandoffs(t, c, network, 20)
			verdict := result.Judge(handoffs)
			t.Logf("%s\n%s", result, verdict)
			if verdict.Verdict != load.Clean {
				t.Errorf("%s", verdict)
			}
		})
	}
}

// What Go's net/http loses by itself while both versions accept from one queue: shown, not hidden. Nothing is refused.
func TestPlainHTTPLosesSome(t *testing.T) {
	t.Parallel()
	result, handoffs := throughHandoffs(t, configuration{mode: "v0:plain"}, "tcp", 20)
	t.Logf("net/http with Shutdown, shared socket, 20 handoffs: %d of %d requests failed\n%s", result.Failed(), len(result.Requests), result)
	if n := result.Count(load.Refused); n > 0 {
		t.Errorf("%d connections were refused", n)
	}
	if v := result.Judge(handoffs); v.Verdict == load.Inconclusive {
		t.Errorf("%s", v)
	}
}

// throughHandoffs hands off n times under load.
func throughHandoffs(t *testing.T, c configuration, network string, n int) (*load.Result, []load.Interval) {
	t.Helper()
	mode := c.mode
	s := start(t, c)
	address := s.address()
	if network == "unix" {
		address = address[len("unix://"):]
	}
	client, err := load.Start(t.Context(), load.Config{Network: network, Address: address, Workers: 8, Duration: 5 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Stop()
	var handoffs []load.Interval
	for i := range n {
		version := fmt.Sprintf("v%d", i+1)
		c.mode = version + mode[len("v0"):]
		c.write(t, s.dir)
		began := time.Now()
		if status, _, stderr := s.reload(); status != 0 {
			t.Fatalf("handoff %d: %s", i+1, stderr)
		}
		handoffs = append(handoffs, load.Interval{From: began, To: time.Now()})
		if err := client.Version(t.Context(), version); err != nil {
			t.Fatal(err)
		}
	}
	s.settled() // the last one that drains is under load too
	return client.Stop(), handoffs
}
