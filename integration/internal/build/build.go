// Package build compiles the programs that the integration tests put into their machines.
package build

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// module is what package paths begin with.
const module = "github.com/zddsupervisor/zddsupervisor/"

// Programs compiles programs of this module, each once. The zero value is not usable: see [New]. It is safe for concurrent use.
type Programs struct {
	dir string

	mu    sync.Mutex
	built map[string]*program
}

type program struct {
	once sync.Once
	path string
	err  error
}

// New returns a Programs that keeps what it compiles in a new directory, until Close.
func New() (*Programs, error) {
	dir, err := os.MkdirTemp("", "zdd-programs-")
	if err != nil {
		return nil, err
	}
	return &Programs{dir: dir, built: map[string]*program{}}, nil
}

// Close removes the programs.
func (p *Programs) Close() error { return os.RemoveAll(p.dir) }

// Supervisor is the program under test, which runs on any file system: it is linked statically.
func (p *Programs) Supervisor(ctx context.Context) (path string, err error) {
	return p.build(ctx, "cmd/zddsupervisor", false)
}

// RacySupervisor is the program under test with the race detector, which needs a C library inside that is not older than the host's.
func (p *Programs) RacySupervisor(ctx context.Context) (path string, err error) {
	return p.build(ctx, "cmd/zddsupervisor", true)
}

// Service is the testservice.
func (p *Programs) Service(ctx context.Context) (path string, err error) {
	return p.build(ctx, "integration/testservice", false)
}

// ComparedService is the compareservice.
func (p *Programs) ComparedService(ctx context.Context) (path string, err error) {
	return p.build(ctx, "integration/compareservice", false)
}

// ActivatedService is the activatedservice.
func (p *Programs) ActivatedService(ctx context.Context) (path string, err error) {
	return p.build(ctx, "integration/activatedservice", false)
}

// Package is the Debian package of the program under test, with this version.
func (p *Programs) Package(ctx context.Context, version string) (path string, err error) {
	b := p.named("package-" + version)
	b.once.Do(func() {
		root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
		if err != nil {
			b.err = fmt.Errorf("find the module: %w", err)
			return
		}
		cmd := exec.CommandContext(ctx, filepath.Join(strings.TrimSpace(string(root)), "packaging/deb.sh"), version, b.path)
		if out, err := cmd.CombinedOutput(); err != nil {
			b.err = fmt.Errorf("build the package: %w\n%s", err, out)
			return
		}
		made, err := filepath.Glob(filepath.Join(b.path, "*.deb"))
		if err != nil || len(made) != 1 {
			b.err = fmt.Errorf("packaging/deb.sh has made %q", made)
			return
		}
		b.path = made[0]
	})
	return b.path, b.err
}

// build compiles a package, blocking until it is done. The first call's context counts for all that ask for the same.
func (p *Programs) build(ctx context.Context, pkg string, race bool) (string, error) {
	name := filepath.Base(pkg)
	cgo, flags := "CGO_ENABLED=0", []string{"build", "-trimpath"} // as in packaging/deb.sh, so that nothing is compiled twice
	if race {
		name += "-race"
		cgo, flags = "CGO_ENABLED=1", []string{"build", "-race"}
	}
	b := p.named(name)
	b.once.Do(func() {
		cmd := exec.CommandContext(ctx, "go", append(flags, "-o", b.path, module+pkg)...)
		cmd.Env = append(os.Environ(), cgo)
		if out, err := cmd.CombinedOutput(); err != nil {
			b.err = fmt.Errorf("build %s: %w\n%s", pkg, err, out)
		}
	})
	return b.path, b.err
}

// named returns what is built under that name, or will be.
func (p *Programs) named(name string) *program {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.built[name]
	if b == nil {
		b = &program{path: filepath.Join(p.dir, name)}
		p.built[name] = b
	}
	return b
}
