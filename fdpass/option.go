package fdpass

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// An option is one field of a Spec as the text form knows it.
type option struct {
	name string
	// set reads the field from text; its error says what would be right.
	set func(s *Spec, text string) error
	// get returns the field as text, or "" for its zero value.
	get func(s Spec) string
	// fits reports whether the option means something for the socket, and
	// only says for which sockets it does.
	fits func(s Spec) bool
	only string
	// flag marks what is true or false, and true where no value is given.
	flag bool
	// live marks what can change while the socket is open.
	live bool
}

// options is every option, in the order of the text form.
func options() []option {
	inet := func(s Spec) bool { return s.inet() }
	file := func(s Spec) bool { return s.unixPath() }
	listens := func(s Spec) bool { return s.listens() }
	tcp := func(s Spec) bool { return s.tcp() }
	own := func(s Spec) bool { return s.Network != Systemd }
	all := func(Spec) bool { return true }
	ported := func(s Spec) bool { return s.Pass == PassPort }
	carries := func(s Spec) bool { return s.tcp() || s.Network == Systemd }
	const (
		onlyInet = "internet sockets"
		onlyFile = "unix sockets with a path"
		onlyTCP  = "tcp sockets"
		onlyOwn  = "sockets that the supervisor binds"
	)
	return []option{
		text("name", func(s *Spec) *string { return &s.Name }, all, "").changeable(),
		text("mode", func(s *Spec) *Mode { return &s.Mode }, all, ""),
		text("pass", func(s *Spec) *Pass { return &s.Pass }, all, ""),
		text("ports", func(s *Spec) *string { return &s.Ports }, ported, "sockets with pass = \"port\""),
		text("protocol", func(s *Spec) *string { return &s.Protocol }, carries, "tcp sockets").changeable(),
		{
			name: "overlap", flag: true, live: true, only: "sockets for datagrams",
			get: func(s Spec) string {
				if s.Apart {
					return "false"
				}
				return ""
			},
			set: func(s *Spec, text string) error {
				overlap, err := parseBool(text)
				s.Apart = !overlap
				return err
			},
			fits: func(s Spec) bool { return s.udp() || s.Network == UnixGram || s.Network == Systemd },
		},
		number("backlog", func(s *Spec) *int { return &s.Backlog }, listens, "sockets that take connections").changeable(),
		text("owner", func(s *Spec) *string { return &s.Owner }, file, onlyFile).changeable(),
		text("group", func(s *Spec) *string { return &s.Group }, file, onlyFile).changeable(),
		octal("permissions", func(s *Spec) *uint32 { return &s.Permissions }, file, onlyFile).changeable(),
		{
			name: "v6only", flag: true, set: setV6Only, only: "IPv6 addresses",
			get:  func(s Spec) string { return boolText(s.V6Only) },
			fits: func(s Spec) bool { return s.inet() && s.Network != TCP4 && s.Network != UDP4 },
		},
		boolean("freebind", func(s *Spec) *bool { return &s.FreeBind }, inet, onlyInet),
		boolean("reuseport", func(s *Spec) *bool { return &s.ReusePort }, inet, onlyInet),
		boolean("transparent", func(s *Spec) *bool { return &s.Transparent }, inet, onlyInet),
		number("rcvbuf", func(s *Spec) *int { return &s.ReceiveBuffer }, own, onlyOwn),
		number("sndbuf", func(s *Spec) *int { return &s.SendBuffer }, own, onlyOwn),
		unsigned("mark", func(s *Spec) *uint32 { return &s.Mark }, inet, onlyInet),
		text("device", func(s *Spec) *string { return &s.Device }, inet, onlyInet),
		seconds("defer-accept", func(s *Spec) *time.Duration { return &s.DeferAccept }, tcp, onlyTCP),
		number("fastopen", func(s *Spec) *int { return &s.FastOpen }, tcp, onlyTCP),
		boolean("nonblocking", func(s *Spec) *bool { return &s.NonBlocking }, own, onlyOwn),
	}
}

// changeable marks the option as one that can change while the socket is open.
func (o option) changeable() option {
	o.live = true
	return o
}

func text[T ~string](name string, field func(*Spec) *T, fits func(Spec) bool, only string) option {
	return option{
		name: name, fits: fits, only: only,
		get: func(s Spec) string { return string(*field(&s)) },
		set: func(s *Spec, text string) error {
			if text == "" {
				return errors.New("needs a value")
			}
			*field(s) = T(text)
			return nil
		},
	}
}

func number(name string, field func(*Spec) *int, fits func(Spec) bool, only string) option {
	return option{
		name: name, fits: fits, only: only,
		get: func(s Spec) string {
			if *field(&s) == 0 {
				return ""
			}
			return strconv.Itoa(*field(&s))
		},
		set: func(s *Spec, text string) error {
			n, err := strconv.ParseInt(text, 10, 32)
			if err != nil || !isNumber(text) {
				return fmt.Errorf("%q is not a number from 0 to %d", text, math.MaxInt32)
			}
			*field(s) = int(n)
			return nil
		},
	}
}

func unsigned(name string, field func(*Spec) *uint32, fits func(Spec) bool, only string) option {
	return option{
		name: name, fits: fits, only: only,
		get: func(s Spec) string {
			if *field(&s) == 0 {
				return ""
			}
			return strconv.FormatUint(uint64(*field(&s)), 10)
		},
		set: func(s *Spec, text string) error {
			n, err := strconv.ParseUint(text, 0, 32) // marks are often written 0x1f
			if err != nil {
				return fmt.Errorf("%q is not a number from 0 to %d", text, uint32(math.MaxUint32))
			}
			*field(s) = uint32(n)
			return nil
		},
	}
}

func octal(name string, field func(*Spec) *uint32, fits func(Spec) bool, only string) option {
	return option{
		name: name, fits: fits, only: only,
		get: func(s Spec) string {
			if *field(&s) == 0 {
				return ""
			}
			return fmt.Sprintf("%04o", *field(&s))
		},
		set: func(s *Spec, text string) error {
			n, err := strconv.ParseUint(text, 8, 32)
			if err != nil || n == 0 {
				return fmt.Errorf("%q is not an octal number from 0001 to 0777", text)
			}
			*field(s) = uint32(n)
			return nil
		},
	}
}

func boolean(name string, field func(*Spec) *bool, fits func(Spec) bool, only string) option {
	return option{
		name: name, flag: true, fits: fits, only: only,
		get: func(s Spec) string { return boolText(*field(&s)) },
		set: func(s *Spec, text string) (err error) {
			*field(s), err = parseBool(text)
			return err
		},
	}
}

func seconds(name string, field func(*Spec) *time.Duration, fits func(Spec) bool, only string) option {
	return option{
		name: name, fits: fits, only: only,
		get: func(s Spec) string {
			if *field(&s) == 0 {
				return ""
			}
			return field(&s).String()
		},
		set: func(s *Spec, text string) error {
			d, err := time.ParseDuration(text)
			if err != nil {
				return fmt.Errorf("%q is not a time such as 30s", text)
			}
			*field(s) = d
			return nil
		},
	}
}

// setV6Only refuses to let IPv4 into a network that is IPv6 by its name.
func setV6Only(s *Spec, text string) error {
	on, err := parseBool(text)
	if err == nil && !on && s.v6only() {
		return fmt.Errorf("%s:// is always IPv6 only; use %s:// for both", s.Network, s.transport())
	}
	s.V6Only = on
	return err
}

func parseBool(text string) (bool, error) {
	switch text {
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false", text)
}

func boolText(on bool) string {
	if on {
		return "true"
	}
	return ""
}
