package integration_test

import (
	"fmt"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/integration/internal/rootfs"
	"github.com/zddsupervisor/zddsupervisor/integration/internal/services"
	"github.com/zddsupervisor/zddsupervisor/internal/load"
)

// TestRealServices hands each service off 20 times under load of new connections, by "systemctl reload". None is refused and none is reset
// before it is accepted; a service that finishes what it accepted loses nothing at all.
func TestRealServices(t *testing.T) {
	t.Parallel()
	for _, service := range services.All() {
		t.Run(service.Name, func(t *testing.T) {
			t.Parallel()
			m := boot(t, rootfs.Trixie())
			for path, content := range service.Files {
				m.write(path, content)
			}
			s := supervise(t, m, fmt.Sprintf("name = \"svc\"\n%s\n[[socket]]\nname = \"http\"\nlisten = \"tcp://%s\"\n", service.Config, address))
			s.must("systemctl", "start", unitName)
			l := s.load(service.Load)
			l.versions(1)
			const handoffs = 20
			for range handoffs {
				l.handoff()
			}
			s.eventually("the last old version is gone", func() bool { return len(s.status().Generations) == 1 })
			result := l.stop()
			judgement := result.Judge(l.handoffs)
			t.Logf("%s, %d handoffs: %s\n%s", service.Name, handoffs, judgement, result)
			if judgement.Verdict == load.Inconclusive || service.Finishes && judgement.Verdict != load.Clean {
				t.Error(judgement)
			}
			for _, kind := range []load.Kind{load.Refused, load.ConnectReset, load.Timeout} {
				if n := result.Count(kind); n > 0 {
					t.Errorf("%s: %d", kind, n)
				}
			}
			s.expect("after all handoffs", map[string]string{"ActiveState": "active", "ReloadResult": "success", "NRestarts": "0"})
			if got := s.status().Handoffs; got != handoffs+1 {
				t.Errorf("%d handoffs, want %d and the first start", got, handoffs)
			}
		})
	}
}
