package config

import (
	"slices"
	"strings"
	"time"
)

// A Key is one thing that can be configured.
type Key struct {
	// Name is the key with its table, as in "ready.timeout". The keys of a
	// [[socket]] begin with "socket.".
	Name string
	Kind Kind
	// Default is the value in the notation of flags, or "" for none.
	Default string
	// Doc is what the key means, beginning with a sentence that stands alone.
	Doc string

	// set puts the value into a configuration. Its error says what is wrong
	// with the value, without naming the key. nil for the keys of a socket.
	set func(*draft, value) error
}

// A value is what a key is given.
type value struct {
	texts []string // one, unless the key's kind takes several
	dir   string   // what relative paths are relative to
}

// Flag returns the name of the flag that sets the key, without dashes, or "" for
// the command, which is what follows the flags.
func (k Key) Flag() string {
	switch {
	case k.Name == "command":
		return ""
	case k.ofSocket():
		return "listen"
	}
	return strings.ReplaceAll(k.Name, ".", "-")
}

func (k Key) ofSocket() bool { return strings.HasPrefix(k.Name, socketTable+".") }

// socketTable is the name of the tables that describe sockets.
const socketTable = "socket"

// Keys returns every key, in the order in which they are explained best.
func Keys() []Key {
	return slices.Concat(serviceKeys(), passKeys(), socketKeys(), startKeys(), handoffKeys(), hookKeys(), carryKeys(), observeKeys())
}

func serviceKeys() []Key {
	return []Key{
		{
			Name: "name", Kind: Text, set: setName,
			Doc: `Name of the supervisor. It tells it from others on the machine, and is the name of its directories. ` +
				`The default is the last part of the command's path.`,
		},
		{
			Name: "command", Kind: Command, set: words(func(c *draft) *[]string { return &c.Command }),
			Doc: `The service: a program and its arguments. A program with a slash in its path is relative to directory, ` +
				`one without is looked up in the PATH of the service. {fd:NAME} stands for the descriptor of a socket, ` +
				`{fd:ready} for the one of ready.by = "fd", {generation} for the number of the generation, and {release} for its release. ` +
				`On the command line it follows the flags.`,
		},
		{
			Name: "directory", Kind: Path, set: path(func(c *draft) *string { return &c.Directory }),
			Doc: `Working directory of the service. A symbolic link is followed anew for each generation. ` +
				`The default is where the supervisor was started.`,
		},
		{
			Name: "environment", Kind: Table, set: setEnvironment,
			Doc: `Environment variables of the service. They come on top of the supervisor's own environment and of environment-file. ` +
				`The placeholders of command work here too.`,
		},
		{
			Name: "environment-file", Kind: PathList, set: setEnvironmentFiles,
			Doc: `Files with environment variables, as in systemd's EnvironmentFile=. They are read anew for each generation. ` +
				`One whose name begins with '-' need not exist.`,
		},
		{
			Name: "user", Kind: Text, set: text(func(c *draft) *string { return &c.User }),
			Doc: `User that the service runs as, by name or number. HOME, USER and LOGNAME are set to go with it. ` +
				`The default is the supervisor's own.`,
		},
		{
			Name: "group", Kind: Text, set: text(func(c *draft) *string { return &c.Group }),
			Doc: `Group that the service runs as, by name or number. The default is the primary group of user.`,
		},
		{
			Name: "umask", Kind: Octal, set: setUmask,
			Doc: `File mode creation mask of the service. The default is the supervisor's own.`,
		},
		{
			Name: "limits", Kind: LimitTable, set: setLimit,
			Doc: `Resource limits of the service, such as nofile. There are ` + strings.Join(limitNames(), ", ") + `. ` +
				`Each is a number, "infinity", or "SOFT:HARD".`,
		},
		{
			Name: "cgroup", Kind: Text, Default: string(CgroupAuto), set: choice(func(c *draft) *CgroupMode { return &c.Cgroup }, CgroupAuto, CgroupOff),
			Doc: `Whether each generation gets a control group of its own, "auto" or "off". ` +
				`With "auto" it does where one is delegated to the supervisor, as Delegate=yes does in a unit.`,
		},
		{
			Name: "watchdog", Kind: Duration, set: duration(func(c *draft) *time.Duration { return &c.Watchdog }, 0),
			Doc: `How often the service must send WATCHDOG=1; if it does not, it counts as crashed. The default is that it need not.`,
		},
		{
			Name: "fail-fast", Kind: Bool, Default: "false", set: boolean(func(c *draft) *bool { return &c.FailFast }),
			Doc: `End the supervisor if the first start of the service fails, instead of trying again and again.`,
		},
		{
			Name: "upgrade.timeout", Kind: Duration, Default: "30s", set: duration(func(c *draft) *time.Duration { return &c.UpgradeTimeout }, 1),
			Doc: `How long another supervisor that is to follow this one (see zddsupervisor upgrade) may take until it has the service. ` +
				`After that it is killed, and this one goes on. It is read when the supervisor is started.`,
		},
		{
			Name: "runtime-directory", Kind: Path, set: path(func(c *draft) *string { return &c.RuntimeDirectory }),
			Doc: `Directory of the supervisor's own sockets. The default is RUNTIME_DIRECTORY, as systemd sets it; ` +
				`else zddsupervisor/NAME in /run for root, and in XDG_RUNTIME_DIR for others.`,
		},
		{
			Name: "state-directory", Kind: Path, set: path(func(c *draft) *string { return &c.StateDirectory }),
			Doc: `Directory of what must outlive a reboot. The default is STATE_DIRECTORY, as systemd sets it; ` +
				`else zddsupervisor/NAME in /var/lib for root, and in XDG_STATE_HOME or ~/.local/state for others.`,
		},
	}
}
