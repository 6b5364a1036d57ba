package integration_test

import (
	"context"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/integration/internal/rootfs"
	"github.com/zddsupervisor/zddsupervisor/integration/internal/services"
	"github.com/zddsupervisor/zddsupervisor/internal/load"
)

// TestRealServices hands each service off under load of new connections, by "systemctl reload". None is refused and none is reset before it is
// accepted; a service that finishes what it accepted loses nothing at all.
func TestRealServices(t *testing.T) {
	t.Parallel()
	for _, service := range services.All() {
		t.Run(service.Name, func(t *testing.T) {
			t.Parallel()
			handoffs := 20
			if service.Few {
				handoffs = 2
			}
			s := superviseReal(t, service, service.Configuration(fdpass.Steered, false))
			l := s.load(service.Load)
			l.versions(1)
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
