package child

import (
	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

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
	// LISTEN_FDS, LISTEN_FDNAMES and NOTIFY_SOCKET, which follow from Sockets
	// and Notify and are dropped from Env. See CleanEnv.
	Env []string

	// Dir is the working directory, entered with the rights of Credential. ""
	// means the supervisor's own.
	Dir string

	// Sockets become the descriptors 3, 4 and so on, without close-on-exec, and
	// are announced by LISTEN_FDS, LISTEN_FDNAMES and LISTEN_PID. Without any,
	// none of these variables is set.
	Sockets []NamedFD

	// Extra descriptors follow the sockets and are not announced.
	Extra []*fdpass.FD

	// Notify is the value of NOTIFY_SOCKET, "" for none. Where the child has no
	// cgroup of its own, it is also how processes are found that have left the
	// child's session and parents, so it should differ for each generation.
	Notify string

	// Credential is the user and the groups; nil means the supervisor's own.
	Credential *Credential

	// Limits are resource limits; what is not named is as it was when the
	// supervisor was started.
	Limits []Limit

	// Umask is the file mode creation mask; nil means the supervisor's own.
	Umask *int

	// Stdin, Stdout and Stderr become the descriptors 0, 1 and 2. Nil means
	// /dev/null for Stdin and the supervisor's own 1 and 2 for the others, the
	// very same open files, so that no pipe of ours is in between.
	Stdin, Stdout, Stderr *fdpass.FD

	// Cgroup is where the child is born; nil means the supervisor's own.
	Cgroup *Cgroup
}

// A NamedFD is a descriptor with the name that LISTEN_FDNAMES gives it. The
// empty name becomes "unknown", as with systemd.
type NamedFD struct {
	Name string
	FD   *fdpass.FD
}

// A Credential is who a process runs as. Groups are the supplementary groups,
// all of them: an empty list means none.
type Credential struct {
	UID, GID uint32
	Groups   []uint32
}

// A Limit is one resource limit, see setrlimit(2).
type Limit struct {
	Resource int // unix.RLIMIT_NOFILE and so on
	unix.Rlimit
}

// LookupCredential finds a user and a group, each by name or by number.
func LookupCredential(user, group string) (*Credential, error) { return nil, errTodo }

// CleanEnv returns env without the variables that belong to the supervisor.
func CleanEnv(env []string) []string { return env }
