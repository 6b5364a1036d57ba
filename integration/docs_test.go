package integration_test

import (
	"os"
	"strings"
	"testing"
)

// TestServicesPage holds the page of recipes to what TestRealServices runs.
func TestServicesPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/services.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, service := range realServices() {
		if !strings.Contains(string(page), "```toml\n"+service.config+"```\n") {
			t.Errorf("docs/services.md does not have the configuration that %s is tested with", service.name)
		}
	}
}
