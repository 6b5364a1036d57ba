package systemd

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// A SocketUnit is the .socket unit of one socket of a service, which systemd
// opens before the service is started and keeps open after it was stopped. Spec
// is what it is to be; its FDName becomes FileDescriptorName=.
type SocketUnit struct {
	Service string // the unit that gets the socket, without ".service"
	Spec    fdpass.Spec
}

// Text returns the text of the unit file. What a .socket unit cannot say is an
// error that wraps ErrUnit.
func (u SocketUnit) Text() (string, error) {
	if err := CheckName(u.Service); err != nil {
		return "", err
	}
	s := u.Spec
	var t unitText
	t.section("Unit")
	t.set("Description", fmt.Sprintf("%s, socket %s", u.Service, plain(s.FDName())))
	t.set("Documentation", "https://github.com/zddsupervisor/zddsupervisor")

	t.section("Socket")
	key, address, err := listenSetting(s)
	if err != nil {
		return "", err
	}
	t.set(key, address)
	t.set("FileDescriptorName", plain(s.FDName()))
	t.set("Service", u.Service+".service")
	if strings.HasPrefix(s.Network, fdpass.TCP) && s.Mode != fdpass.Shared {
		t.comment("So that each version can have a socket of its own on this address.")
		t.set("ReusePort", "yes")
	}
	for _, o := range []struct {
		key, value string
	}{
		{"BindIPv6Only", ifSet(s.Network == fdpass.TCP6 || s.Network == fdpass.UDP6 || s.V6Only, "ipv6-only")},
		{"Backlog", number(s.Backlog)},
		{"SocketUser", plain(s.Owner)},
		{"SocketGroup", plain(s.Group)},
		{"SocketMode", ifSet(s.Permissions != 0, fmt.Sprintf("%04o", s.Permissions))},
		{"FreeBind", ifSet(s.FreeBind, "yes")},
		{"ReusePort", ifSet(s.ReusePort, "yes")},
		{"Transparent", ifSet(s.Transparent, "yes")},
		{"ReceiveBuffer", number(s.ReceiveBuffer)},
		{"SendBuffer", number(s.SendBuffer)},
		{"Mark", number(int(s.Mark))},
		{"BindToDevice", plain(s.Device)},
		{"DeferAcceptSec", ifSet(s.DeferAccept > 0, strconv.Itoa(int(s.DeferAccept/time.Second)))},
		{"RemoveOnStop", ifSet(strings.HasPrefix(s.Address, "/"), "yes")},
	} {
		if o.value != "" {
			t.set(o.key, o.value)
		}
	}
	if s.FastOpen > 0 {
		t.fail("fastopen of the socket %s has no setting", s.FDName())
	}

	t.section("Install")
	t.set("WantedBy", "sockets.target")
	if t.err != nil {
		return "", t.err
	}
	return t.String(), nil
}

// listenSetting returns the setting that makes the socket, see systemd.socket(5).
func listenSetting(s fdpass.Spec) (key, address string, err error) {
	switch s.Network {
	case fdpass.TCP, fdpass.TCP4, fdpass.TCP6:
		key = "ListenStream"
	case fdpass.UDP, fdpass.UDP4, fdpass.UDP6:
		key = "ListenDatagram"
	case fdpass.Unix:
		return "ListenStream", plain(s.Address), nil
	case fdpass.UnixGram:
		return "ListenDatagram", plain(s.Address), nil
	case fdpass.UnixPacket:
		return "ListenSequentialPacket", plain(s.Address), nil
	default:
		return "", "", fmt.Errorf("the socket %s is one of systemd's already: %w", s.FDName(), ErrUnit)
	}
	host, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		return "", "", fmt.Errorf("the socket %s: %w: %w", s.FDName(), err, ErrUnit)
	}
	if host == "" {
		switch s.Network {
		case fdpass.TCP4, fdpass.UDP4:
			host = "0.0.0.0"
		case fdpass.TCP6, fdpass.UDP6:
			host = "::"
		default:
			return key, port, nil // every address, of both families
		}
	}
	if _, err := netip.ParseAddr(host); err != nil {
		return "", "", fmt.Errorf("the socket %s is on %q: a .socket unit needs an address and no name: %w", s.FDName(), host, ErrUnit)
	}
	return key, net.JoinHostPort(host, port), nil
}

func ifSet(set bool, value string) string {
	if !set {
		return ""
	}
	return value
}

func number(n int) string { return ifSet(n != 0, strconv.Itoa(n)) }
