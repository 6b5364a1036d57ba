package integration_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/integration/internal/pages"
	"github.com/zddsupervisor/zddsupervisor/integration/internal/services"
)

// TestServicesPage holds the page of recipes to what TestRealServices runs.
func TestServicesPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/services.md")
	if err != nil {
		t.Fatal(err)
	}
	configs := map[string]string{"a container": services.ContainerConfig}
	for _, service := range append(services.All(), services.Caddy(), services.Dovecot(), services.Unbound()) {
		configs[service.Name] = service.Config
		if !strings.Contains(string(page), "\n### "+service.Name+"\n") {
			t.Errorf("docs/services.md has no recipe by the name of %s", service.Name)
		}
	}
	for name, config := range configs {
		if !strings.Contains(string(page), "```toml\n"+config+"```\n") {
			t.Errorf("docs/services.md does not have the configuration that %s is tested with", name)
		}
	}
}

// TestTroubleshootingPage holds the page of messages to what the program can say.
func TestTroubleshootingPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	var sources strings.Builder
	err = filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "../integration/") {
			return err
		}
		text, err := os.ReadFile(path)
		sources.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	messages := pages.Messages(string(page))
	if len(messages) < 20 {
		t.Errorf("only %d messages were found in the page", len(messages))
	}
	for _, parts := range messages {
		for _, part := range parts {
			if !strings.Contains(sources.String(), part) {
				t.Errorf("docs/troubleshooting.md explains %q, which nothing says", part)
			}
		}
	}
}
