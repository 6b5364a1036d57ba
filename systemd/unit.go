package systemd

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ErrUnit is returned for what cannot be said in a unit file.
var ErrUnit = errors.New("not possible in a unit file")

// spare is added to every time limit of a unit. The supervisor's own limits are
// to end what takes too long, since it says why; systemd's are for the case
// that the supervisor itself is stuck.
const spare = 30 * time.Second

// maxLine is the longest line of a unit file, in bytes (LONG_LINE_MAX in
// systemd).
const maxLine = 1 << 20

// leastStore is how many descriptors systemd is to keep at least: sockets may be
// added to the configuration without another unit.
const leastStore = 512

// Unit is the systemd service that runs one supervisor. Name, Binary, and one of
// Config and Run must be set; for a template, Binary and Config alone.
type Unit struct {
	Name        string   // of the supervisor, see CheckName; the unit is Name.service
	Description string   // one line for people; empty for one made of Name
	Binary      string   // absolute path of zddsupervisor
	Config      string   // absolute path of the configuration file
	Run         []string // everything that follows "run" on the command line, instead of Config

	// Template makes a template, such as zddsupervisor@.service: the name of each
	// supervisor is what stands behind the '@', and its configuration file is that
	// name with ".toml" in Config, which is a directory.
	Template bool

	// Sockets are the .socket units whose sockets the supervisor gets, each without
	// ".socket".
	Sockets []string

	// These are the supervisor's limits, from which the unit's follow.
	CheckTimeout time.Duration
	ReadyTimeout time.Duration
	Probing      time.Duration // what all probes of a handoff may take
	Canary       time.Duration // all steps of it
	SettleMax    time.Duration
	Soak         time.Duration
	DrainTimeout time.Duration

	// Descriptors is how many descriptors the supervisor may want systemd to keep.
	// The unit allows for more.
	Descriptors int

	// Watchdog is how long the supervisor may be silent before systemd starts
	// it again. 0 stands for ever.
	Watchdog time.Duration

	// Sandbox shuts supervisor and service off from more of the system than suits
	// any service. Nil is for what suits any.
	Sandbox *Sandbox

	// Portable makes a unit that systemd before version 253 understands. Later
	// ones do as well, but do not show that a reload by signal is under way.
	Portable bool
}

// Text returns the text of the unit file. Errors wrap ErrUnit or ErrName.
func (u Unit) Text() (string, error) {
	if err := u.check(); err != nil {
		return "", err
	}
	// A name has nothing in it that would have to be quoted, and %i is for systemd.
	name, description := u.Name, plain(u.Description)
	if u.Template {
		name = "%i"
	}
	if description == "" {
		description = name + ", handed off by zddsupervisor"
	}
	run := commandLine(append([]string{u.Binary, "run"}, u.Run...))
	switch {
	case u.Template:
		run += " --name %i --config " + word(u.Config+"/") + "%i.toml"
	case u.Config != "":
		run += " --config " + word(u.Config)
	}

	var t unitText
	t.section("Unit")
	t.set("Description", description)
	t.set("Documentation", "https://github.com/zddsupervisor/zddsupervisor")
	t.set("Wants", "network-online.target")
	t.set("After", "network-online.target")
	t.comment("However often it fails, it is started again.")
	t.set("StartLimitIntervalSec", "0")
	if u.Template {
		t.comment("An instance without a configuration would fail again and again.")
		t.set("AssertPathExists", plain(u.Config)+"/%i.toml")
	}

	t.section("Service")
	if u.Portable {
		t.set("Type", "notify")
	} else {
		t.comment("Since systemd 253. Older ones ignore this line and do not wait until the service is ready.")
		t.set("Type", "notify-reload")
	}
	t.set("NotifyAccess", "main")
	if len(u.Sockets) > 0 {
		t.set("Sockets", strings.Join(u.Sockets, ".socket ")+".socket")
	}
	t.set("ExecStart", run)
	t.comment("Waits for the handoff and fails if it does, and with it `systemctl reload`.")
	t.set("ExecReload", commandLine([]string{u.Binary, "reload", "--name"})+" "+name)
	if !u.Portable {
		t.comment("systemd 253 to 258 send this signal as well as ExecReload=. SIGHUP would ask for a second handoff.")
		t.set("ReloadSignal", "SIGCONT")
	}
	t.comment("A stop ends a reload that waits, for a soak perhaps. That is no failure.")
	t.set("SuccessExitStatus", "SIGTERM")
	t.set("ExecStopPost", commandLine([]string{u.Binary, "sweep", "--name"})+" "+name)
	t.comment("If the supervisor dies, the service goes on and the next one takes it over. What is left at a stop, ExecStopPost= ends.")
	t.set("KillMode", "process")
	t.set("OOMPolicy", "continue")
	t.comment("A control group for each generation, so that none of its processes is missed.")
	t.set("Delegate", "yes")
	t.set("Restart", "always")
	t.set("RestartSec", "100ms")
	t.set("RuntimeDirectory", "zddsupervisor/"+name)
	t.set("RuntimeDirectoryPreserve", "restart")
	t.set("StateDirectory", "zddsupervisor/"+name)
	t.set("FileDescriptorStoreMax", strconv.Itoa(max(leastStore, 2*u.Descriptors)))
	t.comment("Two handoffs, since a reload may come while another runs, with room to spare.")
	t.set("TimeoutStartSec", seconds(u.TimeoutStart()))
	t.comment("The time that draining may take, with room to spare.")
	t.set("TimeoutStopSec", seconds(u.TimeoutStop()))
	if u.Watchdog > 0 {
		t.set("WatchdogSec", seconds(u.Watchdog))
	}
	u.Sandbox.write(&t)

	t.section("Install")
	t.set("WantedBy", "multi-user.target")
	if t.err != nil {
		return "", t.err
	}
	return t.String(), nil
}

// TimeoutStart is for a start and for a reload, which systemd limits alike. A
// handoff may wait twice for something to settle: for a seat, which an older
// generation still has, and after the cutover.
func (u Unit) TimeoutStart() time.Duration {
	return 2*(u.CheckTimeout+u.ReadyTimeout+u.Probing+u.Canary+2*u.SettleMax+u.Soak) + spare
}

// TimeoutStop is for the end of all generations. A linger that is under way does
// not count: a stop ends it.
func (u Unit) TimeoutStop() time.Duration {
	return u.SettleMax + u.DrainTimeout + spare
}

func (u Unit) check() error {
	if u.Template {
		if u.Name != "" || len(u.Run) > 0 || len(u.Sockets) > 0 {
			return fmt.Errorf("a template has no name, command line or sockets of its own: %w", ErrUnit)
		}
		if word(u.Config) != u.Config {
			return fmt.Errorf("the directory of a template's configuration files is %q, which would have to be quoted: %w", u.Config, ErrUnit)
		}
	} else if err := CheckName(u.Name); err != nil {
		return err
	}
	// systemd replaces variables in the arguments, but not in the path itself,
	// and so does not take the "$$" of a "$" back there.
	if !filepath.IsAbs(u.Binary) || strings.Contains(u.Binary, "$") {
		return fmt.Errorf("the path of the program is %q: it must be absolute and without \"$\": %w", u.Binary, ErrUnit)
	}
	if (u.Config == "") == (len(u.Run) == 0) {
		return fmt.Errorf("the unit needs either a configuration file or a command line: %w", ErrUnit)
	}
	if u.Config != "" && !filepath.IsAbs(u.Config) {
		return fmt.Errorf("the path of the configuration file is %q: it must be absolute: %w", u.Config, ErrUnit)
	}
	return nil
}

// seconds rounds up: no limit gets shorter.
func seconds(d time.Duration) string {
	return fmt.Sprintf("%ds", (d+time.Second-1)/time.Second)
}
