package integration_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/integration/internal/rootfs"
	"github.com/zddsupervisor/zddsupervisor/integration/internal/services"
	"github.com/zddsupervisor/zddsupervisor/internal/load"
)

// image is the archive of a root file system with nothing in it but a program, /app.
func image(t *testing.T) []byte {
	t.Helper()
	path, err := programs.ActivatedService(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.WriteHeader(&tar.Header{Name: "app", Mode: 0o755, Size: int64(len(program))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(program); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

// TestContainers deploys and rolls back images by their tags, under load. Each generation is a container, which says itself that it is ready, is
// stopped by podman's own signal, and of which nothing is left.
func TestContainers(t *testing.T) {
	t.Parallel()
	m := boot(t, rootfs.Trixie())
	if m.run("podman", "--version").Status != 0 {
		t.Fatal("the machine has no podman")
	}
	m.must("mount", "-t", "tmpfs", "tmpfs", "/var/lib/containers") // its layers cannot lie on those of the machine itself
	m.write("/image.tar", string(image(t)))
	for _, tag := range []string{"v1", "v2", "bad"} {
		command := `CMD=["/app"]`
		if tag == "bad" {
			command = `CMD=["/no-such"]`
		}
		m.must("podman", "import", "--quiet", "--change", command, "--change", "ENV=VERSION="+tag, "/image.tar", "app:"+tag)
		m.must("mkdir", "-p", "/srv/app/releases/"+tag)
	}
	m.must("ln", "-s", "releases/v1", "/srv/app/current")
	s := supervise(t, m, "name = \"svc\"\n"+services.ContainerConfig)
	s.must("systemctl", "start", unitName)
	is := func(tag string) {
		t.Helper()
		if got := s.must("curl", "--silent", "--show-error", "--output", "/dev/null", "--write-out", "%header{x-version}", "http://"+address+"/"); got != tag {
			t.Errorf("%q answers, and not %s", got, tag)
		}
		s.eventually("one generation is left", func() bool { return len(s.status().Generations) == 1 })
		want := fmt.Sprintf("app-%d localhost/app:%s", s.status().Generations[0].Number, tag)
		if got := strings.TrimSpace(s.must("podman", "ps", "--all", "--format", "{{.Names}} {{.Image}}")); got != want {
			t.Errorf("the containers are %q, and not %q", got, want)
		}
	}
	is("v1")
	l := s.load(load.Config{Rate: 100})
	l.versions(1)
	s.must(supervisorPath, "deploy", "v2")
	is("v2")
	if r := s.run(supervisorPath, "deploy", "bad"); r.Status != 1 {
		t.Errorf("an image whose program is missing: %s", r)
	}
	is("v2")
	s.must(supervisorPath, "rollback")
	is("v1")
	result := l.stop()
	t.Logf("%s", result)
	if n := result.Failed(); n > 0 || len(result.Versions) != 2 {
		t.Errorf("%d requests failed, and %q answered", n, result.Versions)
	}
	if got := s.must(supervisorPath, "history"); strings.Count(got, "rollback") == 0 || !strings.Contains(got, "v2") {
		t.Errorf("the history is\n%s", got)
	}
	s.must("systemctl", "stop", unitName)
	if got := s.must("podman", "ps", "--all", "--quiet"); strings.TrimSpace(got) != "" {
		t.Errorf("containers are left: %s", got)
	}
	processes, err := s.Processes()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		if p.Name == "conmon" || p.Name == "podman" || p.Name == "app" {
			t.Errorf("a process is left: %+v", p)
		}
	}
}
