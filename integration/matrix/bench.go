package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/integration/internal/build"
	"github.com/zddsupervisor/zddsupervisor/integration/internal/machine"
	"github.com/zddsupervisor/zddsupervisor/integration/internal/rootfs"
	"github.com/zddsupervisor/zddsupervisor/integration/internal/services"
	"github.com/zddsupervisor/zddsupervisor/internal/load"
)

const (
	supervisorPath = "/usr/bin/zddsupervisor"
	configPath     = "/etc/zddsupervisor/svc.toml"
	unitName       = "svc.service"

	limit = 2 * time.Minute // for one command inside, and for a version to answer
	// busy is how long half of the requests on new connections take on a machine that is too slow for the load: services time out then, or
	// refuse what is too much for them, whether they are handed off or not. (Those on kept-alive ones may wait for an old version.)
	busy = time.Second
	// keptClients is how many kept-alive connections each of the two loads on them has.
	keptClients = 10
)

// A kind is one of the loads.
type kind struct{ keep, post bool }

func (k kind) String() string {
	text := "new, GET"
	if k.keep {
		text = "kept-alive, GET"
	}
	if k.post {
		text = strings.Replace(text, "GET", "POST", 1)
	}
	return text
}

// measured is what came of one load.
type measured struct {
	kind   kind
	result *load.Result
}

// bench is what all machines are made of. close removes what was compiled.
type bench struct {
	root     *rootfs.Root
	programs *build.Programs
}

func newBench() (b *bench, err error) {
	b = &bench{}
	if b.root, err = rootfs.Trixie().Use(rootfs.Cache()); err != nil {
		return nil, fmt.Errorf("%w: run integration/test.sh as root, it builds it", err)
	}
	if b.programs, err = build.New(); err != nil {
		return nil, errors.Join(err, b.root.Close())
	}
	return b, nil
}

func (b *bench) close() {
	_ = b.programs.Close()
	_ = b.root.Close()
}

// measure hands a service off so many times, in a machine of its own.
func (b *bench) measure(ctx context.Context, s services.Service, w way, handoffs int) (all []measured, err error) {
	m, err := machine.Boot(ctx, machine.Options{Root: b.root.Dir, Hostname: rootfs.Trixie().Suite})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Kill()) }()
	if err := b.install(ctx, m, s, w); err != nil {
		return nil, err
	}
	must := func(argv ...string) error {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		_, err := m.Output(ctx, argv...)
		if err != nil {
			journal, _ := m.Journal(ctx, unitName)
			err = fmt.Errorf("%w\n%s", err, journal)
		}
		return err
	}
	if err := must("systemctl", "start", unitName); err != nil {
		return nil, err
	}
	var loads []*load.Remote
	defer func() {
		for _, l := range loads[len(all):] {
			_, _ = l.Stop()
		}
	}()
	kinds := kindsOf(s, w)
	for _, k := range kinds {
		l, err := start(m, s, k)
		if err != nil {
			return nil, err
		}
		loads = append(loads, l)
	}
	for done := range handoffs + 1 {
		if done > 0 {
			if err := must("systemctl", "reload", unitName); err != nil {
				return nil, err
			}
		}
		for _, l := range loads {
			ctx, cancel := context.WithTimeout(ctx, limit)
			err := l.Versions(ctx, done+1)
			cancel()
			if err != nil {
				return nil, fmt.Errorf("waiting until version %d has answered: %w", done+1, err)
			}
		}
	}
	// The last old version is told to stop only now.
	if err := must("sh", "-c", `until [ "$(`+supervisorPath+` status --json | grep -c '"number"')" = 1 ]; do sleep 0.1; done`); err != nil {
		return nil, err
	}
	for i, l := range loads {
		r, err := l.Stop()
		if err != nil {
			return all, err
		}
		if half := r.Quantile(0.5); half > busy && !kinds[i].keep {
			return all, fmt.Errorf("the machine is too busy to measure anything: half of the requests took longer than %s", half)
		}
		all = append(all, measured{kinds[i], r})
	}
	return all, nil
}

// A way is how the socket is had.
type way struct {
	name  string
	mode  fdpass.Mode
	carry bool
}

func ways() []way {
	return []way{{"shared", fdpass.Shared, false}, {"steered", fdpass.Steered, false}, {"carried", fdpass.Steered, true}}
}

// A job is one machine's.
type job struct {
	service services.Service
	way     way
}

// kindsOf are the loads that a service can take, of those that show something in this way.
func kindsOf(s services.Service, w way) []kind {
	var kinds []kind
	if !w.carry {
		kinds = append(kinds, kind{})
	}
	if !w.carry && s.Load.Greeting == "" {
		kinds = append(kinds, kind{post: true})
	}
	if s.Keeps || s.Persistent && !w.carry {
		kinds = append(kinds, kind{keep: true}, kind{keep: true, post: true})
	}
	return kinds
}

// start starts one load.
func start(m *machine.Machine, s services.Service, k kind) (*load.Remote, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := s.Load
	if c.Address == "" {
		c.Address = services.Address
	}
	c.Rate /= 2
	c.Duration = time.Hour
	if c.KeepAlive = k.keep; k.keep {
		c.Workers = keptClients
	}
	if k.post {
		c.Body = "a body of some length"
	}
	cmd := m.NetworkCommand(context.Background(), self)
	cmd.Env = append(os.Environ(), loadEnv+"=1")
	cmd.Stderr = os.Stderr
	return load.StartRemote(cmd, c)
}

// install puts the service and its supervisor into the machine.
func (b *bench) install(ctx context.Context, m *machine.Machine, s services.Service, w way) error {
	program, err := b.programs.Supervisor(ctx)
	if err != nil {
		return err
	}
	if err := m.CopyFile(ctx, program, supervisorPath, 0o755); err != nil {
		return err
	}
	if s.Program != nil {
		if program, err = s.Program(b.programs, ctx); err != nil {
			return err
		}
		if err := m.CopyFile(ctx, program, services.ProgramPath, 0o755); err != nil {
			return err
		}
	}
	files := map[string]string{configPath: s.Configuration(w.mode, w.carry)}
	for path, text := range s.Files {
		files[path] = text
	}
	for path, text := range files {
		if err := m.WriteFile(ctx, path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	unit, err := m.Output(ctx, supervisorPath, "unit", "--config", configPath)
	if err != nil {
		return err
	}
	if err := m.InstallUnit(ctx, unitName, unit); err != nil {
		return err
	}
	for name, text := range s.Units {
		if err := m.InstallUnit(ctx, name, text); err != nil {
			return err
		}
		if _, err := m.Output(ctx, "systemctl", "start", name); err != nil {
			return err
		}
	}
	return nil
}
