package child

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/zddsupervisor/zddsupervisor/child/internal/shim"
	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// FirstFD is the number that the first of Command.Sockets has in the child, as
// sd_listen_fds(3) has it.
const FirstFD = 3

// A Command says what to start and in which surroundings. The zero value of
// every field but Path is usable. Nothing in it is taken over: descriptors are
// borrowed until Start returns, and the child gets duplicates of its own.
type Command struct {
	// Path is the program. Without a slash it is looked for in the PATH of Env;
	// a relative one is relative to Dir.
	Path string

	// Args are the arguments, the program's name first. Nil means Path alone.
	Args []string

	// Env is the whole environment, but for LISTEN_PID, LISTEN_PIDFDID,
	// LISTEN_FDS, LISTEN_FDNAMES and NOTIFY_SOCKET, and what else Pass sets, which
	// follow from Sockets and Notify and are dropped from Env. See CleanEnv.
	Env []string

	// Dir is the working directory, entered with the rights of Credential. ""
	// means the supervisor's own.
	Dir string

	// Sockets become the descriptors 3, 4 and so on, without close-on-exec, and
	// are announced as Pass says. Without any, no variable is set for that.
	Sockets []NamedFD

	// Pass are the protocols by which the program is told of Sockets. Nil means
	// PassListenFDs; an empty list means that it is told in no way.
	Pass []Pass

	// Generation is a number for the protocols that tell one.
	Generation int

	// Offers are sockets that the program does not inherit, but gets where it binds
	// their addresses itself. For that its calls of bind(2) and listen(2) are told
	// to this process, see seccomp_unotify(2), which takes Linux 5.9. Without
	// CAP_SYS_ADMIN neither the program nor what it runs can gain privileges any more.
	Offers []Offer

	// Log is told what keeps a program from getting what it was offered; nil for nobody.
	Log *slog.Logger

	// Extra descriptors follow the sockets and are not announced.
	Extra []*fdpass.FD

	// Notify is the value of NOTIFY_SOCKET, "" for none. It is also how a Tree
	// finds processes that have left the child's session and parents, so it
	// should differ for each generation.
	Notify string

	// Credential is the user and the groups; nil means the supervisor's own.
	Credential *Credential

	// Limits are resource limits, set before the user changes. What is not named
	// is as it was when the supervisor was started.
	Limits []Limit

	// Umask is the file mode creation mask; nil means the supervisor's own.
	Umask *uint32

	// Stdin, Stdout and Stderr become the descriptors 0, 1 and 2. Nil means
	// /dev/null for Stdin and the supervisor's own 1 and 2 for the others: the
	// very same open files, so that no pipe of ours is in between.
	Stdin, Stdout, Stderr *fdpass.FD

	// Cgroup is where the child is born; nil means the supervisor's own. It
	// stays open as long as the Process's Tree is used.
	Cgroup *Cgroup
}

// A NamedFD is a descriptor with the name that LISTEN_FDNAMES gives it. The
// empty name becomes "unknown", as with systemd.
type NamedFD struct {
	Name string
	FD   *fdpass.FD

	// Address is where it is bound, as fdpass.Socket.Addr has it, for the
	// protocols that tell addresses.
	Address string
}

// A Limit is one resource limit, see setrlimit(2).
type Limit struct {
	Resource int    // unix.RLIMIT_NOFILE and so on
	Cur, Max uint64 // unix.RLIM_INFINITY for none
}

// noID means "leave it as it is" to setresuid(2) and setresgid(2).
const noID = 1<<32 - 1

// validate finds what no child can be given.
func (c *Command) validate() error {
	if c.Path == "" {
		return errors.New("the command is empty")
	}
	for _, s := range slices.Concat([]string{c.Path, c.Dir, c.Notify}, c.Args, c.Env) {
		if strings.ContainsRune(s, 0) {
			return fmt.Errorf("%q contains a NUL character", s)
		}
	}
	if cred := c.Credential; cred != nil && (cred.UID == noID || cred.GID == noID) {
		// The child would keep the supervisor's rights.
		return fmt.Errorf("%d is no user or group", uint32(noID))
	}
	if err := checkOffers(c.Offers); err != nil {
		return err
	}
	for _, s := range c.Sockets {
		// They are joined by colons.
		if strings.ContainsFunc(s.Name, func(r rune) bool { return r == ':' || r < ' ' || r == 0x7f }) {
			return fmt.Errorf("the socket name %q contains a colon or a control character", s.Name)
		}
	}
	_, err := c.announcement()
	return err
}

// spec is what the shim is told. The child has the descriptors below keep. The command
// is valid.
func (c *Command) spec(path string, keep int) (_ *shim.Spec, err error) {
	s := &shim.Spec{
		Path:      path,
		Args:      c.Args,
		Env:       c.environ(),
		Dir:       c.Dir,
		Keep:      uint32(keep),
		ListenPID: len(c.Sockets) > 0 && slices.Contains(c.passes(), PassListenFDs),
		Umask:     c.Umask,
	}
	if s.Args == nil {
		s.Args = []string{c.Path}
	}
	for _, l := range c.Limits {
		s.Limits = append(s.Limits, shim.Limit{Resource: uint32(l.Resource), Cur: l.Cur, Max: l.Max})
	}
	if cred := c.Credential; cred != nil {
		s.Credential = &shim.Credential{UID: cred.UID, GID: cred.GID, Groups: cred.Groups}
	}
	if len(c.Offers) > 0 {
		if s.Filter, err = bindFilter(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// environ is the child's environment but for LISTEN_PID, which only the child
// itself knows.
func (c *Command) environ() []string {
	var env []string
	if c.Notify != "" {
		env = append(env, notifyEntry(c.Notify))
	}
	announced, _ := c.announcement()
	env = append(env, announced...)
	for _, entry := range withoutVariables(c.Env, handedOver[:]) {
		if name, _, _ := strings.Cut(entry, "="); !c.owned(name) {
			env = append(env, entry)
		}
	}
	return env
}

func notifyEntry(path string) string { return "NOTIFY_SOCKET=" + path }
