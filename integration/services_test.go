package integration_test

import (
	"context"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/integration/internal/rootfs"
	"github.com/zddsupervisor/zddsupervisor/integration/internal/services"
	"github.com/zddsupervisor/zddsupervisor/internal/load"
)

// realHandoffs is how often each service is handed off: enough to see that it works. What each loses in many, integration/matrix measures.
const realHandoffs = 3

// TestRealServices hands each service off under load of new connections, by "systemctl reload". On a steered socket not one request is lost, whatever
// the service does with what it has accepted when it is told to stop.
func TestRealServices(t *testing.T) {
	t.Parallel()
	for _, service := range services.All() {
		t.Run(service.Name, func(t *testing.T) {
			t.Parallel()
			s := superviseReal(t, service, service.Configuration(fdpass.Steered, false))
			l := s.load(service.Load)
			l.versions(1)
			for range realHandoffs {
				l.handoff()
			}
			s.eventually("the last old version is gone", func() bool { return len(s.status().Generations) == 1 })
			result := l.stop()
			judgement := result.Judge(l.handoffs)
			t.Logf("%s, %d handoffs: %s\n%s", service.Name, realHandoffs, judgement, result)
			if judgement.Verdict != load.Clean {
				t.Error(judgement)
			}
			s.expect("after all handoffs", map[string]string{"ActiveState": "active", "ReloadResult": "success", "NRestarts": "0"})
			if got := s.status().Handoffs; got != realHandoffs+1 {
				t.Errorf("%d handoffs, want %d and the first start", got, realHandoffs)
			}
		})
	}
}

// superviseReal starts a machine with a service and its supervisor.
func superviseReal(t *testing.T, service services.Service, config string) *supervised {
	t.Helper()
	m := boot(t, rootfs.Trixie())
	for path, content := range service.Files {
		m.write(path, content)
	}
	if service.Program != nil {
		program, err := service.Program(programs, context.Background())
		if err != nil {
			t.Fatal(err)
		}
		m.install(program, services.ProgramPath)
	}
	for name, text := range service.Units {
		m.unit(name, text)
		m.must("systemctl", "start", name)
	}
	s := supervise(t, m, config)
	s.must("systemctl", "start", unitName)
	return s
}
