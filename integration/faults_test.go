package integration_test

import (
	"strings"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/internal/load"
)

// TestOutOfMemory has the kernel kill the service because its unit has no memory left: the supervisor goes on, the socket stays open,
// and the service is started again.
func TestOutOfMemory(t *testing.T) {
	onEach(t, func(t *testing.T, m *testMachine) {
		s := supervise(t, m, config("-version=1", "-serve=http"))
		s.unit(unitName, s.must(supervisorPath, "unit", "--config", configPath)+"\n[Service]\nMemoryMax=200M\nMemorySwapMax=0\n")
		s.must("systemctl", "start", unitName)
		l := s.load(load.Config{Rate: 200, Workers: 4})
		l.versions(1)
		supervisor := s.show(unitName, "MainPID")
		for range 2 {
			before := s.live()
			if r := s.run("curl", "--silent", "--show-error", "--max-time", "20", "http://"+address+"/?eat=400"); r.Status == 0 {
				t.Fatalf("it has eaten 400 MiB: %s", r)
			}
			s.eventually("another process is live", func() bool { now := s.live(); return now != 0 && now != before })
			if got := s.answers(); got != "1" {
				t.Errorf("version %q answers", got)
			}
		}
		s.expect("after two deaths", map[string]string{"ActiveState": "active", "NRestarts": "0", "MainPID": supervisor})
		if journal := s.must("journalctl", "--no-pager", "--unit", unitName); !strings.Contains(journal, "SIGKILL") {
			t.Error("inconclusive: the journal does not tell of a kill")
		}
		result := l.stop()
		t.Logf("%s", result)
		if n := result.Count(load.Refused); n > 0 {
			t.Errorf("%d connections were refused", n)
		}
		s.must("systemctl", "stop", unitName)
		if left, err := s.UnitProcesses(unitName); err != nil || len(left) > 0 {
			t.Errorf("after the stop, there are %+v, %v", left, err)
		}
	})
}
