package standalone

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/integration/internal/link"
	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/internal/load"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// loadEnv makes the test binary a load client, for use in a network namespace.
const loadEnv = "ZDD_TEST_LOAD"

// The clients are 100 ms away over a wire that loses 2 percent of the packets each way, and the service is net/http: through 20 handoffs
// not one request fails. Handshakes are under way at each cutover, with the old generation's socket or, with SYN cookies, with none: then
// the last packet of a handshake is all that there is of it.
func TestSlowLinkLosesNothing(t *testing.T) {
	t.Parallel()
	for _, cookies := range []bool{false, true} {
		t.Run(map[bool]string{false: "handshakes in the kernel", true: "SYN cookies"}[cookies], func(t *testing.T) {
			t.Parallel()
			slowLink(t, cookies)
		})
	}
}

func slowLink(t *testing.T, cookies bool) {
	if os.Geteuid() != 0 {
		t.Skip("a network namespace with an interface needs root")
	}
	o := link.Options{Delay: 50 * time.Millisecond, Loss: 0.02, Seed: uint64(time.Now().UnixNano())}
	wire, err := link.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { wire.Close() })
	inside := func(argv ...string) string {
		t.Helper()
		out, err := wire.A.Command(t.Context(), argv...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", argv, err, out)
		}
		return string(out)
	}
	if cookies {
		inside("sh", "-c", "echo 2 > /proc/sys/net/ipv4/tcp_syncookies") // always, and not only when a queue is full
	}
	address := wire.A.Address + ":8080"
	service := func(version string) configuration {
		return configuration{
			command: []string{testservice, "-serve=http", "-version=" + version},
			sockets: fmt.Sprintf("[[socket]]\nname = \"main\"\nlisten = \"tcp://%s\"\n[settle]\nmax = \"60s\"\n", address),
		}
	}
	s := launch(t, service("v0"), wire.A.Wrapper()...)
	s.until("a live generation", func(st *control.Status) bool { return live(st) != nil && st.Current == nil })

	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := wire.B.Command(context.Background(), self)
	cmd.Env = append(os.Environ(), loadEnv+"=1")
	cmd.Stderr = os.Stderr
	// A lost packet costs a second or more: the client has to have patience.
	client, err := load.StartRemote(cmd, load.Config{Address: address, Workers: 64, Timeout: time.Minute, Duration: 5 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop := func() *load.Result {
		t.Helper()
		stopped = true
		result, err := client.Stop()
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	defer func() {
		if !stopped {
			_, _ = client.Stop()
		}
	}()
	if err := client.Version(t.Context(), "v0"); err != nil {
		t.Fatal(err)
	}
	var handoffs []load.Interval
	var longest time.Duration
	handshakes := 0
	for i := range 20 {
		version := fmt.Sprintf("v%d", i+1)
		service(version).write(t, s.dir)
		began := time.Now()
		r, err := s.client.Reload(t.Context(), 0, func(p upgrade.Progress) {
			if p.Step == upgrade.Cutting.String() && p.Ended() {
				handshakes += strings.Count(inside("ss", "--no-header", "--numeric", "--tcp", "state", "syn-recv"), "\n")
			}
		})
		if err != nil {
			t.Fatalf("handoff %d: %v", i+1, err)
		}
		if len(r.Unsettled) > 0 {
			t.Errorf("handoff %d: %+v", i+1, r.Unsettled)
		}
		for _, step := range r.Steps {
			if step.Name == upgrade.Settling.String() {
				longest = max(longest, step.Took)
			}
		}
		handoffs = append(handoffs, load.Interval{From: began, To: time.Now()})
		if err := client.Version(t.Context(), version); err != nil {
			t.Fatal(err)
		}
	}
	s.settled()
	result := stop()
	verdict := result.Judge(handoffs)
	t.Logf("%s\n%d handshakes seen right after cutovers, longest settle %s\n%s (seed %d)\n%s", describeLoad(result), handshakes, longest, wire, o.Seed, verdict)
	if verdict.Verdict != load.Clean {
		t.Errorf("%s", verdict)
	}
	switch {
	case cookies && counter(t, inside("cat", "/proc/net/netstat"), "TcpExt", "SyncookiesRecv") == 0:
		t.Error("no connection was made by a SYN cookie")
	case !cookies && handshakes == 0:
		t.Error("no handshake was under way at any cutover")
	}
}

// counter finds one of the kernel's counters in /proc/net/netstat, which has a line of names and a line of numbers for each group.
func counter(t *testing.T, netstat, group, name string) (n int) {
	t.Helper()
	var names []string
	for line := range strings.Lines(netstat) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != group+":" {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		if i := slices.Index(names, name); i >= 0 && i < len(fields) {
			if _, err := fmt.Sscan(fields[i], &n); err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("the kernel has no counter %s %s", group, name)
	return 0
}
