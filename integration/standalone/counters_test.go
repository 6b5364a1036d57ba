package standalone

import (
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/internal/load"
)

// What others buy by holding SYN packets while listeners change, by the kernel's own counters: through handoffs at thousands of
// connections a second no SYN is sent again, no listener drops anything, and no connection is reset.
//
// Segments with RST, and those that are sent again later than the SYN, are told and not judged. Without any handoff there is one of the
// former for some ten thousands of connections: while a socket that is closed becomes one in TIME_WAIT, some kernels miss both, and answer
// a segment for it. The connection is over by then. The latter come from a machine with nothing to spare.
func TestNoPacketIsLost(t *testing.T) {
	rate := 4000.0
	if racing {
		rate = 400
	}
	for name, service := range map[string]func(string) configuration{
		"port":      func(v string) configuration { return byPort(v) },
		"reuseport": func(v string) configuration { return byReusePort(v) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t).start(service("v0"))
			client := p.load(p.wire.A, load.Config{Address: "127.0.0.1:" + publicPort, Workers: 64, Rate: rate, MaxRequests: 10_000_000, Duration: 10 * time.Minute})
			client.version("v0")
			counters := func() map[string]int {
				netstat, snmp := p.run(p.wire.A, "cat", "/proc/net/netstat"), p.run(p.wire.A, "cat", "/proc/net/snmp")
				c := make(map[string]int)
				for _, name := range []string{"EstabResets", "AttemptFails", "RetransSegs", "OutRsts"} {
					c[name] = counter(t, snmp, "Tcp", name)
				}
				for _, name := range []string{"TCPSynRetrans", "ListenDrops", "ListenOverflows", "TCPAbortOnClose", "TCPAbortOnData", "TCPReqQFullDrop"} {
					c[name] = counter(t, netstat, "TcpExt", name)
				}
				return c
			}
			before := counters()
			intervals := p.handoffs(*longRun, service, client)
			after := counters()
			result := client.stop()
			verdict := result.Judge(intervals)
			t.Logf("%s\n%s", describeLoad(result), verdict)
			if verdict.Verdict != load.Clean {
				t.Errorf("%s", verdict)
			}
			for name, n := range after {
				switch n -= before[name]; {
				case n == 0:
				case name == "OutRsts", name == "RetransSegs":
					t.Logf("%s: %d", name, n)
				default:
					t.Errorf("%s: %d", name, n)
				}
			}
		})
	}
}
