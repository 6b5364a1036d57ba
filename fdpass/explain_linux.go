package fdpass

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// explain makes of a failed system call a sentence that says what to do.
func (op *opening) explain(s Spec, err error) *OpenError {
	reason := ""
	var option *optionError
	switch {
	case errors.As(err, &option):
		reason = explainOption(s, option)
	case s.inet():
		reason = op.explainInet(s, err)
	case s.unixPath():
		reason = explainPath(s, err)
	}
	if reason == "" {
		reason = explainAny(s, err)
	}
	return &OpenError{Spec: s, Reason: reason, Err: err}
}

func explainOption(s Spec, e *optionError) string {
	var unknownUser user.UnknownUserError
	var unknownGroup user.UnknownGroupError
	switch {
	case errors.As(e.err, &unknownUser):
		return fmt.Sprintf("there is no user %q to own %s", e.value, s.Address)
	case errors.As(e.err, &unknownGroup):
		return fmt.Sprintf("there is no group %q for %s", e.value, s.Address)
	case errors.Is(e.err, unix.ENODEV):
		return fmt.Sprintf("there is no network interface %q", e.value)
	case errors.Is(e.err, unix.EPERM) && e.option == "device":
		return fmt.Sprintf("option %q needs the capability CAP_NET_RAW (%v); run as root or give it with AmbientCapabilities= in the unit", e.option, cause(e.err))
	case errors.Is(e.err, unix.EPERM):
		return fmt.Sprintf("option %q needs the capability CAP_NET_ADMIN (%v); run as root or give it with AmbientCapabilities= in the unit", e.option, cause(e.err))
	case errors.Is(e.err, unix.ENOPROTOOPT):
		return fmt.Sprintf("the kernel does not know the option %q (%v)", e.option, cause(e.err))
	case e.option == "":
		return ""
	}
	return fmt.Sprintf("option %q: %q is refused (%v)", e.option, e.value, cause(e.err))
}

func (op *opening) explainInet(s Spec, err error) string {
	var unresolved *lookupError
	switch {
	case errors.As(err, &unresolved):
		return fmt.Sprintf("the host name %q has no address (%v); give an address instead, or check the resolver", unresolved.name, unresolved.err)
	case errors.Is(err, unix.EADDRINUSE):
		if b, ok := op.holder(s); ok {
			return fmt.Sprintf("%s overlaps %s, which this supervisor has open as %q (%v); an address cannot grow or shrink in a reload: restart, or reload once without it", s.address(), b.Socket.Addr(), b.Spec.FDName(), cause(err))
		}
		return fmt.Sprintf("%s is in use by another process (%v); stop it or choose another port", s.address(), cause(err))
	case errors.Is(err, unix.EACCES):
		h, parseErr := s.hostPort()
		first := firstFreePort()
		if parseErr == nil && h.port != 0 && int(h.port) < first {
			return fmt.Sprintf("%s needs the capability CAP_NET_BIND_SERVICE, as do all ports below %d (%v); run as root, give it with AmbientCapabilities=CAP_NET_BIND_SERVICE in the unit, or choose a higher port", s.address(), first, cause(err))
		}
		return fmt.Sprintf("%s is forbidden (%v); look for a security policy such as SELinux, or SocketBindDeny= in the unit", s.address(), cause(err))
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return fmt.Sprintf("this machine does not have the address of %s (%v); correct it, or set freebind if it comes later", s.address(), cause(err))
	case errors.Is(err, unix.EAFNOSUPPORT):
		return fmt.Sprintf("the kernel, or RestrictAddressFamilies= in the unit, does not allow the family of %s (%v)", s.address(), cause(err))
	}
	return ""
}

func explainPath(s Spec, err error) string {
	dir := path.Dir(s.Address)
	var call *os.SyscallError
	errors.As(err, &call)
	during := func(names ...string) bool {
		for _, name := range names {
			if call != nil && call.Syscall == name {
				return true
			}
		}
		return false
	}
	switch {
	case errors.Is(err, errLive):
		return fmt.Sprintf("%s is in use by another process (%v); stop it or choose another path", s.address(), unix.EADDRINUSE)
	case errors.Is(err, errNotSocket):
		return fmt.Sprintf("%s exists and is not a socket; remove it or choose another path", s.Address)
	case errors.Is(err, errUnsure):
		return fmt.Sprintf("%s exists, and we may not connect to it to see whether a process uses it (%v); remove it if none does", s.Address, cause(err))
	case during("unlink"):
		return fmt.Sprintf("%s was left by a dead process and cannot be removed (%v); remove it or let the supervisor write to %s", s.Address, cause(err), dir)
	case during("chown"):
		return fmt.Sprintf("%s cannot be given to owner %q and group %q (%v); run as root, or choose a group that the supervisor is in", s.Address, s.Owner, s.Group, cause(err))
	case during("bind") && errors.Is(err, unix.ENOENT):
		return fmt.Sprintf("the directory %s does not exist (%v); create it, for example with RuntimeDirectory= in the unit", dir, cause(err))
	case during("bind", "lstat") && errors.Is(err, unix.ENOTDIR):
		return fmt.Sprintf("%s is not a directory (%v)", dir, cause(err))
	case during("bind", "lstat") && (errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)):
		return fmt.Sprintf("the supervisor may not create files in %s (%v); change its owner, or choose another directory", dir, cause(err))
	case during("bind") && errors.Is(err, unix.EROFS):
		return fmt.Sprintf("%s is read-only (%v); choose another directory, or allow it with ReadWritePaths= in the unit", dir, cause(err))
	}
	return ""
}

func explainAny(s Spec, err error) string {
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Sprintf("%s is in use by another process (%v); stop it or choose another address", s.address(), cause(err))
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return fmt.Sprintf("no file descriptor is left for %s (%v); raise LimitNOFILE= in the unit", s.address(), cause(err))
	}
	return fmt.Sprintf("%s cannot be opened: %v", s.address(), err)
}

// cause returns the text of the errno in err, without the name of the call.
func cause(err error) error {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// firstFreePort returns the lowest port that everybody may bind.
func firstFreePort() int {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start")
	if err != nil {
		return 1024
	}
	port, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 1024
	}
	return port
}
