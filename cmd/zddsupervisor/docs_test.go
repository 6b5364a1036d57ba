package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/internal/config"
)

var update = flag.Bool("update", false, "write docs/configuration.md from the code")

const configurationPage = "../../docs/configuration.md"

// The reference of the configuration is made from the table that the program works by.
func TestConfigurationPage(t *testing.T) {
	t.Parallel()
	want := configurationReference()
	if *update {
		if err := os.WriteFile(configurationPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(configurationPage)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the code does; run this test with -update", configurationPage)
	}
}

func configurationReference() string {
	var b strings.Builder
	b.WriteString(`# Configuration

<!-- Made by: go test ./cmd/zddsupervisor -run TestConfigurationPage -update -->

The file is TOML. Every key has a flag too, and a flag wins over the file; it stays in force over reloads. An unknown key is
an error, and so is a value of the wrong type: each is told in one line, with file, line and key. A reload with a file that
has an error changes nothing.

Times are numbers with a unit ("90s", "1m30s"), signals are named with or without SIG, relative paths in the file are
relative to it, and those in flags to where the supervisor was started.

`)
	for _, key := range config.Keys() {
		fmt.Fprintf(&b, "## %s\n\n%s", key.Name, key.Kind)
		if key.Default != "" {
			fmt.Fprintf(&b, ", default %s", key.Default)
		}
		switch {
		case strings.HasPrefix(key.Name, "socket."):
			fmt.Fprintf(&b, "; in a [[socket]], or as an option of `--%s`", key.Flag())
		case key.Flag() != "":
			fmt.Fprintf(&b, "; `--%s`", key.Flag())
		}
		fmt.Fprintf(&b, "\n\n%s\n\n", key.Doc)
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}
