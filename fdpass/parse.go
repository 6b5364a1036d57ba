package fdpass

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zddsupervisor/zddsupervisor/internal/suggest"
)

// ParseSpec reads the text form of a spec, "[NAME=]SPEC[?OPTION=VALUE&...]",
// and validates it. SPEC is one of
//
//	tcp://HOST:PORT  tcp4://...  tcp6://...     HOST:PORT and :PORT mean tcp
//	udp://HOST:PORT  udp4://...  udp6://...
//	unix:///PATH  unixgram:///PATH  unixpacket:///PATH
//	@NAME  unixgram:@NAME  unixpacket:@NAME     abstract; @NAME is a stream
//	systemd:NAME
//
// The options are those named at the fields of Spec; an option that is true or
// false is true without a value. In paths, names after '@' or "systemd:", and
// values of options, '%' and two hexadecimal digits stand for a byte, as in
// URLs: %25 is '%', %3f is '?', %26 is '&'.
//
// The error is a *SpecError. ParseSpec does not look anything up.
func ParseSpec(text string) (Spec, error) {
	s, err := parseSpec(text)
	if err != nil {
		err.Text = text
		return Spec{}, err
	}
	return s, nil
}

func parseSpec(text string) (Spec, *SpecError) {
	rest, query, hasQuery := strings.Cut(text, "?")
	var s Spec
	// What holds one of these is the beginning of an address already.
	if name, after, ok := strings.Cut(rest, "="); ok && !strings.ContainsAny(name, "/:@[%") {
		if name == "" {
			return Spec{}, wrong("name", "there is no name before '='")
		}
		s.Name, rest = name, after
	}
	if err := s.parseAddress(rest); err != nil {
		return Spec{}, err
	}
	if hasQuery {
		if err := s.parseOptions(query); err != nil {
			return Spec{}, err
		}
	}
	return s, s.validate()
}

// parseAddress reads network and address.
func (s *Spec) parseAddress(text string) (bad *SpecError) {
	network, address, ok := strings.Cut(text, ":")
	switch known := slices.Contains(networks(), network); {
	case text == "":
		return wrong("", "there is no address; write for example tcp://:8080 or unix:///run/app.sock")
	case strings.HasPrefix(text, "@"):
		s.Network = Unix
		s.Address, bad = unescape("", text)
		return bad
	case strings.HasPrefix(text, "/"):
		return wrong("", "a unix socket's path is written with its type, as in unix://%s", text)
	case isNumber(text):
		return wrong("", "there is no host; did you mean \":%s\"?", text)
	case ok && known:
		s.Network = network
		return s.parseKnown(address)
	case ok && strings.HasPrefix(address, "//"):
		return wrong("", "unknown network %q%s; it is one of %s", network, suggest.DidYouMean(network, networks()), strings.Join(networks(), ", "))
	default:
		s.Network, s.Address = TCP, text
		return nil
	}
}

// parseKnown reads what comes after the network and ':'.
func (s *Spec) parseKnown(text string) (bad *SpecError) {
	address, slashes := strings.CutPrefix(text, "//")
	switch {
	case s.Network == Systemd && slashes:
		return wrong("", "write systemd:%s, without slashes", address)
	case s.inet() && !slashes:
		return wrong("", "did you mean \"%s://%s\"?", s.Network, text)
	case s.inet():
		s.Address = address
		return nil
	case s.local() && slashes:
		s.Address, bad = unescape("", address)
		return bad
	default:
		s.Address, bad = unescape("", text)
		return bad
	}
}

// parseOptions reads what comes after '?'.
func (s *Spec) parseOptions(query string) *SpecError {
	table := options()
	var names []string
	for _, o := range table {
		names = append(names, o.name)
	}
	seen := make(map[string]bool)
	if s.Name != "" {
		seen["name"] = true
	}
	for _, part := range strings.Split(query, "&") {
		name, value, hasValue := strings.Cut(part, "=")
		i := slices.Index(names, name)
		switch {
		case part == "":
			return wrong("", "there is an empty option after '?' or '&'")
		case i < 0:
			hint := suggest.DidYouMean(name, names)
			if hint == "" {
				hint = "; there are " + strings.Join(names, ", ")
			}
			return wrong(name, "unknown option %q%s", name, hint)
		case seen[name]:
			return wrong(name, "option %q is given twice", name)
		}
		seen[name] = true
		if !hasValue && table[i].flag {
			value = "true"
		}
		value, bad := unescape(name, value)
		if bad != nil {
			return bad
		}
		if err := table[i].set(s, value); err != nil {
			return wrong(name, "option %q: %v%s", name, err, modeHint(name, value))
		}
	}
	return nil
}

// networks is every network, in the order in which they are told.
func networks() []string {
	return []string{TCP, TCP4, TCP6, UDP, UDP4, UDP6, Unix, UnixGram, UnixPacket, Systemd}
}

// String returns the text form, from which ParseSpec makes the same spec again
// if it is a valid one.
func (s Spec) String() string {
	var b strings.Builder
	inFront := s.Name != "" && !strings.ContainsAny(s.Name, "=?/:@[%")
	if inFront {
		b.WriteString(s.Name + "=")
	}
	b.WriteString(s.address())
	sep := byte('?')
	for _, o := range options() {
		value := o.get(s)
		if value == "" || o.name == "name" && inFront {
			continue
		}
		b.WriteByte(sep)
		b.WriteString(o.name + "=" + escape(value))
		sep = '&'
	}
	return b.String()
}

// address returns the text form without name and options.
func (s Spec) address() string {
	switch {
	case s.Network == Systemd:
		return Systemd + ":" + escape(s.Address)
	case s.unixPath():
		return s.Network + "://" + escape(s.Address)
	case s.Network == Unix:
		return escape(s.Address)
	case s.local():
		return s.Network + ":" + escape(s.Address)
	default:
		return s.Network + "://" + s.Address
	}
}

const upperhex = "0123456789ABCDEF"

// escape writes the bytes that would end a path or value as %XX.
func escape(text string) string {
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ', c == 0x7f, c == '%', c == '?', c == '&':
			b.Write([]byte{'%', upperhex[c>>4], upperhex[c&15]})
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// unescape is the opposite of escape; option names what text is the value of.
func unescape(option, text string) (string, *SpecError) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			b.WriteByte(text[i])
			continue
		}
		high, low := -1, -1
		if i+2 < len(text) {
			high, low = unhex(text[i+1]), unhex(text[i+2])
		}
		if high < 0 || low < 0 {
			return "", wrong(option, "'%%' is not followed by two hexadecimal digits; write %%25 for the character itself")
		}
		b.WriteByte(byte(high<<4 | low))
		i += 2
	}
	return b.String(), nil
}

func unhex(c byte) int {
	if 'a' <= c && c <= 'f' {
		c -= 'a' - 'A'
	}
	return strings.IndexByte(upperhex, c)
}

// wrong makes a SpecError; its Text is filled in by who knows it.
func wrong(option, format string, args ...any) *SpecError {
	return &SpecError{Option: option, Reason: fmt.Sprintf(format, args...)}
}
