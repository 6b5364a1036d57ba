package fdpass

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/zddsupervisor/zddsupervisor/internal/suggest"
)

// A SpecError tells what is wrong with one spec.
type SpecError struct {
	Text   string // the spec as it was given
	Option string // the option that is wrong, "" for the address itself
	Reason string // in words
}

func (e *SpecError) Error() string { return fmt.Sprintf("%q: %s", e.Text, e.Reason) }

// Limits of the kernel and of systemd.
const (
	maxName = 255 // of a descriptor's name, see FDNAME= in sd_notify(3)
	// maxPath leaves one of the 108 bytes of sun_path for the NUL at the end,
	// which programs expect although the kernel does not, or at the beginning
	// of an abstract name; see unix(7).
	maxPath   = 107
	maxDevice = 15 // of an interface's name, IFNAMSIZ
)

// Validate checks every field, each by itself and with the others, without
// asking the kernel or looking anything up. The error is a *SpecError.
func (s Spec) Validate() error {
	if err := s.validate(); err != nil {
		err.Text = s.String()
		return err
	}
	return nil
}

func (s Spec) validate() *SpecError {
	for _, check := range []func() *SpecError{s.checkNetwork, s.checkName, s.checkMode, s.checkPass, s.checkProtocol, s.checkFit, s.checkPorts, s.checkValues, s.checkAddress} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (s Spec) checkNetwork() *SpecError {
	if !slices.Contains(networks(), s.Network) {
		return wrong("", "unknown network %q%s; it is one of %s", s.Network, suggest.DidYouMean(s.Network, networks()), strings.Join(networks(), ", "))
	}
	return nil
}

func (s Spec) checkName() *SpecError {
	if s.Name == "" {
		return nil
	}
	if reason := nameProblem(s.Name); reason != "" {
		return wrong("name", "the name %q %s", s.Name, reason)
	}
	return nil
}

// nameProblem says what is wrong with the name of a descriptor, or "".
func nameProblem(name string) string {
	for i := range len(name) {
		switch c := name[i]; {
		case c == ':':
			return "has a ':', which separates the names in LISTEN_FDNAMES"
		case c < ' ' || c > '~':
			return "has a character that is not printable ASCII"
		}
	}
	if len(name) > maxName {
		return fmt.Sprintf("has %d characters; %d are allowed", len(name), maxName)
	}
	return ""
}

func (s Spec) checkMode() *SpecError {
	modes := []string{string(Shared), string(Steered)}
	switch {
	case s.Mode == "" || s.Mode == Shared:
		return nil
	case s.Mode != Steered:
		return wrong("mode", "option \"mode\": %q is not a mode%s%s; use %q or %q", s.Mode, suggest.DidYouMean(string(s.Mode), modes), modeHint("mode", string(s.Mode)), Shared, Steered)
	case !s.tcp() && s.Network != Systemd:
		return wrong("mode", "option \"mode\": only tcp sockets can be steered; use %q", Shared)
	case s.ReusePort:
		return wrong("mode", "option \"mode\": a socket with reuseport cannot be steered, since others share its address; use %q", Shared)
	}
	return nil
}

func (s Spec) checkPass() *SpecError {
	if slices.Contains(passes(), s.pass()) {
		return nil
	}
	var known []string
	for _, p := range passes() {
		known = append(known, string(p))
	}
	return wrong("pass", "option \"pass\": %q is not a way to pass a socket%s; it is one of %s", s.Pass, suggest.DidYouMean(string(s.Pass), known), strings.Join(known, ", "))
}

func (s Spec) checkProtocol() *SpecError {
	if s.Protocol == "" || s.Protocol == HTTP1 {
		return nil
	}
	return wrong("protocol", "option \"protocol\": %q is not a protocol that is known here; use %q, or leave it out", s.Protocol, HTTP1)
}

// checkFit refuses options that mean nothing for the kind of socket.
func (s Spec) checkFit() *SpecError {
	for _, o := range options() {
		switch {
		case o.get(s) == "" || o.fits(s):
		case s.Network == Systemd:
			return wrong(o.name, "option %q cannot be given here: the .socket unit decides it", o.name)
		default:
			return wrong(o.name, "option %q is only for %s", o.name, o.only)
		}
	}
	return nil
}

func (s Spec) checkValues() *SpecError {
	numbers := []struct {
		option string
		value  int
	}{
		{"backlog", s.Backlog}, {"rcvbuf", s.ReceiveBuffer}, {"sndbuf", s.SendBuffer}, {"fastopen", s.FastOpen},
	}
	for _, n := range numbers {
		if n.value < 0 || n.value > math.MaxInt32 {
			return wrong(n.option, "option %q: %d is not a number from 0 to %d", n.option, n.value, math.MaxInt32)
		}
	}
	switch {
	case s.Permissions > 0o777:
		return wrong("permissions", "option \"permissions\": %04o is not an octal number from 0001 to 0777", s.Permissions)
	case s.DeferAccept < 0 || s.DeferAccept%time.Second != 0 || s.DeferAccept > math.MaxInt32*time.Second:
		return wrong("defer-accept", "option \"defer-accept\": %s is not a number of whole seconds", s.DeferAccept)
	case len(s.Device) > maxDevice || strings.ContainsFunc(s.Device, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' || r == ':' }):
		return wrong("device", "option \"device\": %q is not the name of a network interface", s.Device)
	}
	return nil
}

func (s Spec) checkAddress() *SpecError {
	switch {
	case s.inet():
		h, err := s.hostPort()
		if err != nil {
			return wrong("", "%v", err)
		}
		if s.V6Only && (h.name != "" || h.ip.Is4()) {
			return wrong("v6only", "option \"v6only\" is only for IPv6 addresses; use %s6://", s.transport())
		}
		return nil
	case s.Network == Systemd:
		if s.Address == "" {
			return wrong("", "there is no name after systemd:")
		}
		if reason := nameProblem(s.Address); reason != "" {
			return wrong("", "the name %q %s", s.Address, reason)
		}
		return nil
	default:
		return s.checkUnix()
	}
}

func (s Spec) checkUnix() *SpecError {
	name, abstract := strings.CutPrefix(s.Address, "@")
	what := "path"
	if abstract {
		what = "abstract name"
	}
	switch last := path.Base(name); {
	case name == "":
		return wrong("", "there is no %s", what)
	case strings.ContainsRune(name, 0):
		return wrong("", "the %s has a NUL byte", what)
	case len(name) > maxPath:
		return wrong("", "the %s has %d bytes; the kernel allows %d", what, len(name), maxPath)
	case abstract:
		return nil
	case name[0] != '/':
		return wrong("", "the path %q is not absolute; did you mean \"%s:///%s\"?", name, s.Network, name)
	case strings.HasSuffix(name, "/"), last == ".", last == "..":
		return wrong("", "the path %q is that of a directory", name)
	}
	return nil
}

// modeHint helps with the one option whose name means something else in
// systemd and elsewhere.
func modeHint(option, value string) string {
	if option == "mode" && isNumber(value) {
		return fmt.Sprintf(" (did you mean permissions=%s?)", value)
	}
	return ""
}
