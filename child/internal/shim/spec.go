package shim

import "syscall"

// Name is argv[0] of a process that is a shim, and Variable is the environment
// variable that holds the number of its socket. Both are needed, so that a
// variable that leaks or a link with a funny name do no harm.
const (
	Name     = "zddsupervisor: starting a child"
	Variable = "ZDDSUPERVISOR_SHIM_FD"
)

// MaxSpec bounds an encoded Spec, in bytes. The kernel takes no more than 6 MiB
// of arguments and environment, see execve(2).
const MaxSpec = 8 << 20

const (
	magic   = "zdds"
	version = 2

	// HeaderSize is the size of what precedes the body: the magic, the version
	// and the length of the body.
	HeaderSize = len(magic) + 4 + 4
)

// A Spec says what a shim does before it executes Path.
type Spec struct {
	Path string
	Args []string
	Env  []string
	Dir  string // "" stays where it is

	Keep      uint32 // descriptors from this number on are closed by exec
	ListenPID bool   // LISTEN_PID is added to Env

	Cgroup     string  // the cgroup.procs file to join, "" for none
	Umask      *uint32 // nil leaves it
	Limits     []Limit
	Filter     *Filter     // nil for none
	Credential *Credential // nil leaves it

	socket int // to the parent
}

// A Filter is a seccomp filter whose notifications the parent answers, see
// seccomp_unotify(2).
type Filter struct {
	Call    uint32 // the number of seccomp(2), which package syscall does not know everywhere
	Program []byte // struct sock_filter, in the machine's own byte order
}

// InstructionSize is the size of a struct sock_filter.
const InstructionSize = 8

// A Limit is one resource limit, see setrlimit(2).
type Limit struct {
	Resource uint32
	Cur, Max uint64
}

// A Credential is a user, a group and all supplementary groups.
type Credential struct {
	UID, GID uint32
	Groups   []uint32
}

// Encode returns the spec with its header. It returns E2BIG if that exceeds
// MaxSpec and EINVAL if a string has a NUL, which no argument can have.
func Encode(s *Spec) ([]byte, error) {
	e := encoder{buf: make([]byte, HeaderSize, 4096)}
	e.string(s.Path)
	e.strings(s.Args)
	e.strings(s.Env)
	e.string(s.Dir)
	e.uint32(s.Keep)
	e.bool(s.ListenPID)
	e.string(s.Cgroup)
	e.bool(s.Umask != nil)
	if s.Umask != nil {
		e.uint32(*s.Umask)
	}
	e.uint32(uint32(len(s.Limits)))
	for _, l := range s.Limits {
		e.uint32(l.Resource)
		e.uint64(l.Cur)
		e.uint64(l.Max)
	}
	e.bool(s.Filter != nil)
	if s.Filter != nil {
		e.uint32(s.Filter.Call)
		e.bytes(s.Filter.Program)
	}
	e.bool(s.Credential != nil)
	if c := s.Credential; c != nil {
		e.uint32(c.UID)
		e.uint32(c.GID)
		e.uint32(uint32(len(c.Groups)))
		for _, g := range c.Groups {
			e.uint32(g)
		}
	}
	switch {
	case e.nul:
		return nil, syscall.EINVAL
	case len(e.buf) > MaxSpec:
		return nil, syscall.E2BIG
	}
	head := encoder{buf: e.buf[:0]}
	head.buf = append(head.buf, magic...)
	head.uint32(version)
	head.uint32(uint32(len(e.buf) - HeaderSize))
	return e.buf, nil
}

// DecodeHeader returns the length of the body that follows. EPROTO means that
// it is not the header of a spec of this version.
func DecodeHeader(header []byte) (body int, err error) {
	if len(header) != HeaderSize || string(header[:len(magic)]) != magic {
		return 0, syscall.EPROTO
	}
	d := decoder{buf: header[len(magic):]}
	v, n := d.uint32(), d.uint32()
	if v != version || n > MaxSpec {
		return 0, syscall.EPROTO
	}
	return int(n), nil
}

// Decode returns the spec in a body, or EPROTO if it is not just that.
func Decode(body []byte) (*Spec, error) {
	d := decoder{buf: body}
	s := &Spec{
		Path:      d.string(),
		Args:      d.strings(),
		Env:       d.strings(),
		Dir:       d.string(),
		Keep:      d.uint32(),
		ListenPID: d.bool(),
		Cgroup:    d.string(),
	}
	if d.bool() {
		mask := d.uint32()
		s.Umask = &mask
	}
	for range d.count(4 + 8 + 8) {
		s.Limits = append(s.Limits, Limit{Resource: d.uint32(), Cur: d.uint64(), Max: d.uint64()})
	}
	if d.bool() {
		s.Filter = &Filter{Call: d.uint32(), Program: d.bytes()}
		d.bad = d.bad || len(s.Filter.Program) == 0 || len(s.Filter.Program)%InstructionSize != 0
	}
	if d.bool() {
		c := &Credential{UID: d.uint32(), GID: d.uint32()}
		for range d.count(4) {
			c.Groups = append(c.Groups, d.uint32())
		}
		s.Credential = c
	}
	if d.bad || len(d.buf) > 0 {
		return nil, syscall.EPROTO
	}
	return s, nil
}
