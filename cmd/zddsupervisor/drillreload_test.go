package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A reload command may leave a service behind that goes on writing where the command wrote: it is not waited for, and can write.
func TestShellReloadLeavesAService(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	command := fmt.Sprintf(`cd '%s'; (until [ -e over ]; do sleep 0.01; done; echo a line && touch written; touch gone) & echo "handoff $DRILL_HANDOFF"`, dir)
	began := time.Now()
	output, err := shellReload(command)(t.Context(), 3)
	if err != nil || output != "handoff 3" {
		t.Errorf("%q, %v", output, err)
	}
	t.Logf("after %s", time.Since(began))
	if err := os.WriteFile(filepath.Join(dir, "over"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, "gone")); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("what it has left behind does not end")
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "written")); err != nil {
		t.Error("what it has left behind could not write")
	}
}

// The error has the end of what the command said.
func TestShellReloadFails(t *testing.T) {
	t.Parallel()
	output, err := shellReload("seq 1 10000; echo no such release >&2; exit 3")(t.Context(), 1)
	if err == nil || !strings.HasSuffix(err.Error(), "no such release") || !strings.HasPrefix(err.Error(), "exit status 3: ") {
		t.Errorf("%v", err)
	}
	if len(output) > maxReloadOutput {
		t.Errorf("%d bytes are kept", len(output))
	}
}
