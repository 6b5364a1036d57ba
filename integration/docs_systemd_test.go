package integration_test

import (
	"os"
	"strings"
	"testing"
)

// TestSystemdPage runs the commands of the page, each block after those before it.
func TestSystemdPage(t *testing.T) {
	text, err := os.ReadFile(systemdPage)
	if err != nil {
		t.Fatal(err)
	}
	onEach(t, func(t *testing.T, m *testMachine) {
		s := asInstalled(t, m)
		s.logs = append(s.logs, "app.service", "app.socket")
		s.must("mkdir", "-p", "/srv/app/bin")
		s.must("cp", servicePath, "/srv/app/bin/app")
		blocks := strings.Split(string(text), "```sh\n")[1:]
		for _, block := range blocks {
			block, _, _ = strings.Cut(block, "```")
			if strings.Contains(block, "--socket-unit") {
				s.must("systemctl", "disable", "--now", "app.service")
				s.must("rm", "/etc/zddsupervisor/app.toml", "/etc/systemd/system/app.service")
			}
			s.must("sh", "-e", "-x", "-c", block)
			if got := s.answers(); got != "1" {
				t.Errorf("after\n%s\nversion %q answers", block, got)
			}
		}
		if len(blocks) != 3 {
			t.Errorf("there are %d blocks of commands", len(blocks))
		}
	})
}
