package integration_test

import (
	"testing"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/integration/internal/services"
	"github.com/zddsupervisor/zddsupervisor/internal/load"
)

// TestCarriedServices hands services off under a load on kept-alive connections alone, which are carried over, and then without that, so
// that the same load shows what it can lose.
func TestCarriedServices(t *testing.T) {
	t.Parallel()
	for _, service := range services.All() {
		if !service.Keeps || service.Few {
			continue
		}
		t.Run(service.Name, func(t *testing.T) {
			t.Parallel()
			s := superviseReal(t, service, service.Configuration(fdpass.Steered, true))
			var failed [2]int
			for i, carry := range []bool{true, false} {
				s.write(configPath, service.Configuration(fdpass.Steered, carry))
				if r := s.reload(); r.Status != 0 {
					t.Fatalf("reload: %s", r)
				}
				l := s.load(load.Config{KeepAlive: true, Workers: 20, Rate: 500})
				l.versions(1)
				const handoffs = 8
				for range handoffs {
					l.handoff()
				}
				s.eventually("the last old version is gone", func() bool { return len(s.status().Generations) == 1 })
				result := l.stop()
				t.Logf("%s, carry %t: %s\n%s\n%+v", service.Name, carry, result.Judge(l.handoffs), result, s.status().Carried)
				if failed[i] = result.Failed(); carry && failed[i] > 0 && !service.Blocks {
					t.Error("requests were lost")
				}
			}
			if failed[0] > failed[1] {
				t.Errorf("%d requests were lost with carrying, and %d without", failed[0], failed[1])
			}
		})
	}
}
