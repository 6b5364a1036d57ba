package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/zddsupervisor/zddsupervisor/internal/config"
)

// ErrNoUnit is returned by FindUnit where no unit of that name runs a supervisor.
var ErrNoUnit = errors.New("there is no such unit")

// A Unit is a unit as systemd has it in force, drop-ins included.
type Unit struct {
	Name       string // of the unit, with ".service"
	Supervisor string // the name that its directories have
	properties map[string]string
}

// properties are what is looked at.
func properties() []string {
	return []string{
		"LoadState", "FragmentPath", "DropInPaths", "NeedDaemonReload", "ActiveState", "MainPID", "WorkingDirectory",
		"Type", "NotifyAccess", "ExecStart", "ExecReload", "ExecStopPost", "KillMode", "SendSIGHUP", "Restart", "Delegate",
		"TimeoutStartUSec", "TimeoutStopUSec", "FileDescriptorStoreMax", "RuntimeDirectory", "RuntimeDirectoryPreserve", "OOMPolicy",
		"User", "CapabilityBoundingSet", "ProtectControlGroups", "RestrictAddressFamilies", "PrivateTmp", "PrivateNetwork", "PrivateUsers",
		"LimitNOFILE",
	}
}

// FindUnit returns the unit of the supervisor with that name: NAME.service, or the instance of the template. The error wraps
// ErrNoUnit if there is none. It runs systemctl(1), and blocks as long as that does.
func FindUnit(ctx context.Context, name string) (*Unit, error) {
	names := []string{name + ".service", "zddsupervisor@" + name + ".service"}
	for _, unit := range names {
		out, err := systemctl(ctx, "show", "--property="+strings.Join(properties(), ","), "--", unit)
		if err != nil {
			return nil, err
		}
		u := &Unit{Name: unit, Supervisor: name, properties: parseProperties(out)}
		// The template is there for any instance, also for one that has no configuration.
		if _, err := os.Stat("/etc/zddsupervisor/" + name + ".toml"); unit == names[1] && err != nil && u.MainPID() == 0 {
			break
		}
		if u.properties["LoadState"] == "loaded" && u.runArguments() != nil {
			return u, nil
		}
	}
	return nil, fmt.Errorf("%w: neither %s nor %s runs zddsupervisor", ErrNoUnit, names[0], names[1])
}

// parseProperties reads what "systemctl show" writes. One that comes several times has its values in as many lines.
func parseProperties(out string) map[string]string {
	all := make(map[string]string)
	for line := range strings.Lines(out) {
		key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if !ok {
			continue
		}
		if before := all[key]; before != "" {
			value = before + "\n" + value
		}
		all[key] = value
	}
	return all
}

// MainPID is the supervisor's process, or 0.
func (u *Unit) MainPID() int {
	pid, _ := strconv.Atoi(u.properties["MainPID"])
	return pid
}

// Source is the configuration that the unit's command line names. The process that runs tells it exactly; systemctl(1) does not
// show where an argument with blanks ends.
func (u *Unit) Source() (*config.Source, error) {
	args := u.runArguments()
	if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", u.MainPID())); err == nil {
		if i := bytes.Index(line, []byte("\x00run\x00")); i > 0 {
			args = strings.Split(strings.TrimSuffix(string(line[i+len("\x00run\x00"):]), "\x00"), "\x00")
		}
	}
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	path := flags.String("config", "", "")
	config.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		return nil, fmt.Errorf("the command line of %s: %w", u.Name, err)
	}
	dir := u.properties["WorkingDirectory"]
	if !filepath.IsAbs(dir) {
		dir = "/"
	}
	return &config.Source{Path: *path, Flags: flags, Args: flags.Args(), WorkingDirectory: dir}, nil
}

// runArguments are what follows "run" in ExecStart=, or nil where it runs something else.
func (u *Unit) runArguments() []string {
	argv := argumentsOf(u.properties["ExecStart"])
	if len(argv) < 2 || argv[1] != "run" {
		return nil
	}
	return argv[2:]
}

// argumentsOf reads "{ path=/bin/x ; argv[]=/bin/x a b ; ignore_errors=no ; ... }".
func argumentsOf(exec string) []string {
	_, rest, _ := strings.Cut(exec, "argv[]=")
	line, _, _ := strings.Cut(rest, " ; ")
	return strings.Fields(line)
}

// commands are the lines of a property such as ExecReload=, each in its words.
func (u *Unit) commands(property string) (all [][]string) {
	for line := range strings.Lines(u.properties[property]) {
		if argv := argumentsOf(line); len(argv) > 0 {
			all = append(all, argv)
		}
	}
	return all
}

// makes reports whether the unit makes a directory when it is started. A nil one makes none.
func (u *Unit) makes(dir string) bool {
	if u == nil {
		return false
	}
	name, ok := strings.CutPrefix(dir, "/run/")
	return ok && slices.Contains(strings.Fields(u.properties["RuntimeDirectory"]), name)
}

// is reports whether a property has one of the values. One that this systemd does not know has none.
func (u *Unit) is(property string, values ...string) bool {
	return slices.Contains(values, u.properties[property])
}

// has reports whether systemd knows the property. A command that is not set it does not show.
func (u *Unit) has(property string) bool {
	_, ok := u.properties[property]
	return ok || strings.HasPrefix(property, "Exec")
}

// line is a line of the unit as it should be, with how to put it there.
func (u *Unit) line(key, value string) string {
	return fmt.Sprintf("%s=%s in [Service] of %s (systemctl edit %s)", key, value, u.Name, u.Name)
}
