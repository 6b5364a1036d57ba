package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/internal/config"
	"github.com/zddsupervisor/zddsupervisor/internal/install"
	"github.com/zddsupervisor/zddsupervisor/systemd"
)

const (
	configDirectory = "/etc/zddsupervisor"
	unitDirectory   = "/etc/systemd/system"
	templateName    = "zddsupervisor@.service"
)

// installService writes the unit of a service, and what it needs, or prints all that in a dry run.
func (f *unitFlags) installService(out io.Writer, source *config.Source, cfg *config.Config) error {
	unit, err := f.describe(cfg)
	if err != nil {
		return err
	}
	if err := lasting(unit.Binary); err != nil {
		return err
	}
	var files []install.File
	next := []string{"systemctl daemon-reload"}
	enable := "systemctl enable --now"
	if f.socketUnit {
		var units []install.File
		if units, unit.Sockets, err = socketUnits(cfg); err != nil {
			return usageError{err}
		}
		files = append(files, units...)
		enable += " " + strings.Join(unit.Sockets, ".socket ") + ".socket"
	}
	switch {
	case fileAlone(source):
		unit.Config = source.Absolute(f.config)
	case source.Path != "":
		unit.Run = commandLine(source, source.Flags, cfg, source.Args)
	default:
		file, err := configurationFile(source, cfg)
		if err != nil {
			return usageError{err}
		}
		files = append(files, file)
		unit.Config = file.Path
	}
	text, err := unit.Text()
	if err != nil {
		return usageError{err}
	}
	files = append(files, install.File{Path: filepath.Join(unitDirectory, cfg.Name+".service"), Text: text, Mode: 0o644})
	return f.put(out, files, append(next, enable+" "+cfg.Name+".service", "zddsupervisor doctor --name "+cfg.Name)...)
}

// unitTemplate prints or writes the template. Its time limits are those of a configuration that sets none; the supervisor asks
// for more where it needs more.
func (f *unitFlags) unitTemplate(out io.Writer) error {
	source := &config.Source{Args: []string{"/service"}, WorkingDirectory: "/"}
	cfg, err := loadForUnit(source)
	if err != nil {
		return err
	}
	unit, err := f.describe(cfg)
	if err != nil {
		return err
	}
	unit.Name, unit.Template, unit.Config = "", true, configDirectory
	unit.Description = ""
	if !f.install {
		return printUnit(out, unit)
	}
	if err := lasting(unit.Binary); err != nil {
		return err
	}
	text, err := unit.Text()
	if err != nil {
		return usageError{err}
	}
	files := []install.File{{Path: filepath.Join(unitDirectory, templateName), Text: text, Mode: 0o644}}
	return f.put(out, files, "systemctl daemon-reload", "systemctl enable --now zddsupervisor@NAME.service, with "+configDirectory+"/NAME.toml in place")
}

// put writes or prints the files, and says what comes next.
func (f *unitFlags) put(out io.Writer, files []install.File, next ...string) error {
	if f.dryRun {
		for i, file := range files {
			if i > 0 {
				fmt.Fprintln(out)
			}
			fmt.Fprintf(out, "# %s\n%s", file.Path, file.Text)
		}
		return nil
	}
	written, err := install.Write(files, f.force)
	for _, path := range written {
		fmt.Fprintln(out, "wrote", path)
	}
	switch {
	case errors.Is(err, install.ErrDiffers):
		return fmt.Errorf("%w; nothing was written; --force replaces it", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: writing to %s and %s takes root", err, configDirectory, unitDirectory)
	case err != nil:
		return err
	case len(written) == 0:
		fmt.Fprintln(out, "everything is there already")
	}
	fmt.Fprintln(out, "\nnext:")
	for _, line := range next {
		fmt.Fprintln(out, "  "+line)
	}
	return nil
}

// lasting refuses a program that is not going to be where it is: what "go run" has made, above all.
func lasting(program string) error {
	for _, dir := range []string{os.TempDir(), "/tmp", "/run", "/dev/shm"} {
		if strings.HasPrefix(program, filepath.Clean(dir)+"/") {
			return usageError{fmt.Errorf("this program is %s, which a reboot removes: put it where it stays, such as /usr/local/bin, and run it from there", program)}
		}
	}
	return nil
}

// configurationFile returns the file that says what the command line says. It was loaded, and said the same.
func configurationFile(source *config.Source, cfg *config.Config) (file install.File, err error) {
	text, err := source.File(cfg)
	if err != nil {
		return file, err
	}
	file = install.File{Path: filepath.Join(configDirectory, cfg.Name+".toml"), Text: text, Mode: 0o644}
	if len(cfg.Environment) > 0 {
		file.Mode = 0o600 // there may be secrets in it
	}
	dir, err := os.MkdirTemp("", "zdd-unit-")
	if err != nil {
		return file, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, filepath.Base(file.Path))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return file, err
	}
	loaded, err := loadForUnit(&config.Source{Path: path, WorkingDirectory: "/"})
	if err != nil {
		return file, fmt.Errorf("the configuration file would not be right: %w", err)
	}
	said := *cfg
	said.Places, loaded.Places = nil, nil
	if !reflect.DeepEqual(*loaded, said) {
		return file, fmt.Errorf("a configuration file cannot say what this command line says; write one, and give it with --config:\n%s", text)
	}
	return file, nil
}

// socketUnits makes the sockets of cfg systemd's, and returns their units and the names of these.
func socketUnits(cfg *config.Config) (files []install.File, names []string, err error) {
	if len(cfg.Sockets) == 0 {
		return nil, nil, errors.New("--socket-unit needs a socket; see --listen")
	}
	cfg.Sockets = slices.Clone(cfg.Sockets)
	for i, spec := range cfg.Sockets {
		text, err := systemd.SocketUnit{Service: cfg.Name, Spec: spec}.Text()
		if err != nil {
			return nil, nil, err
		}
		name := cfg.Name
		if len(cfg.Sockets) > 1 {
			name += "-" + spec.FDName()
			if err := systemd.CheckName(name); err != nil {
				return nil, nil, fmt.Errorf("a unit for the socket %s: %w; give the socket another name", spec.FDName(), err)
			}
		}
		names = append(names, name)
		files = append(files, install.File{Path: filepath.Join(unitDirectory, name+".socket"), Text: text, Mode: 0o644})
		passed := fdpass.Spec{
			Name: spec.FDName(), Network: fdpass.Systemd, Address: spec.FDName(), Mode: spec.Mode,
			Protocol: spec.Protocol, Apart: spec.Apart, NonBlocking: spec.NonBlocking,
		}
		if spec.Steerable() {
			passed.Mode = fdpass.Steered // what of systemd's can be steered is known to its configuration only so
		}
		cfg.Sockets[i] = passed
	}
	return files, names, nil
}
