package systemd

import (
	"errors"
	"strings"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

func TestSocketUnit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"http=:8080":             "ListenStream=8080|FileDescriptorName=http|Service=svc.service|ReusePort=yes",
		"a=tcp4://:80?backlog=5": "ListenStream=0.0.0.0:80|FileDescriptorName=a|Service=svc.service|ReusePort=yes|Backlog=5",
		"a=tcp6://:80":           "ListenStream=[::]:80|FileDescriptorName=a|Service=svc.service|ReusePort=yes|BindIPv6Only=ipv6-only",
		"a=tcp://127.0.0.1:80?mode=shared&defer-accept=2s&freebind&transparent&mark=7&device=lo": "ListenStream=127.0.0.1:80|FileDescriptorName=a|Service=svc.service|FreeBind=yes|Transparent=yes|Mark=7|BindToDevice=lo|DeferAcceptSec=2",
		"a=udp://[::1]:53?rcvbuf=1000&sndbuf=2000":                                               "ListenDatagram=[::1]:53|FileDescriptorName=a|Service=svc.service|ReceiveBuffer=1000|SendBuffer=2000",
		"a=unix:///run/50%25?owner=www&group=web&permissions=660":                                "ListenStream=/run/50%%|FileDescriptorName=a|Service=svc.service|SocketUser=www|SocketGroup=web|SocketMode=0660|RemoveOnStop=yes",
		"a=unixpacket:@x": "ListenSequentialPacket=@x|FileDescriptorName=a|Service=svc.service",
	} {
		spec, err := fdpass.ParseSpec(text)
		if err != nil {
			t.Fatal(err)
		}
		unit, err := SocketUnit{Service: "svc", Spec: spec}.Text()
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		_, body, _ := strings.Cut(unit, "[Socket]\n")
		body, install, _ := strings.Cut(body, "\n\n[Install]\n")
		var lines []string
		for line := range strings.SplitSeq(body, "\n") {
			if !strings.HasPrefix(line, "#") {
				lines = append(lines, line)
			}
		}
		if got := strings.Join(lines, "|"); got != want || install != "WantedBy=sockets.target\n" {
			t.Errorf("%s:\n got %s\nwant %s\nand %s", text, got, want, install)
		}
	}
	for _, text := range []string{"tcp://example.org:80", "systemd:x", "tcp://:80?fastopen=5"} {
		spec, err := fdpass.ParseSpec(text)
		if err != nil {
			t.Fatal(err)
		}
		if unit, err := (SocketUnit{Service: "svc", Spec: spec}).Text(); !errors.Is(err, ErrUnit) || unit != "" {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := (SocketUnit{Service: "a/b", Spec: fdpass.Spec{Network: fdpass.TCP, Address: ":80"}}).Text(); !errors.Is(err, ErrName) {
		t.Error(err)
	}
}
