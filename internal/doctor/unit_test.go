package doctor

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/internal/config"
	"github.com/zddsupervisor/zddsupervisor/systemd"
)

// shown is what "systemctl show" says of a unit that is as it should be.
const shown = `LoadState=loaded
FragmentPath=/etc/systemd/system/svc.service
DropInPaths=
NeedDaemonReload=no
Type=notify-reload
NotifyAccess=main
ExecStart={ path=/usr/bin/zddsupervisor ; argv[]=/usr/bin/zddsupervisor run --config /etc/zddsupervisor/svc.toml ; ignore_errors=no ; start_time=[n/a] ; stop_time=[n/a] ; pid=0 ; code=(null) ; status=0/0 }
ExecReload={ path=/usr/bin/zddsupervisor ; argv[]=/usr/bin/zddsupervisor reload --name svc ; ignore_errors=no ; start_time=[n/a] }
ExecStopPost={ path=/usr/bin/zddsupervisor ; argv[]=/usr/bin/zddsupervisor sweep --name svc ; ignore_errors=no ; start_time=[n/a] }
KillMode=process
SendSIGHUP=no
Restart=always
Delegate=yes
TimeoutStartUSec=4min 30s
TimeoutStopUSec=1min
FileDescriptorStoreMax=512
RuntimeDirectory=zddsupervisor/svc
RuntimeDirectoryPreserve=restart
OOMPolicy=continue
User=
CapabilityBoundingSet=cap_chown cap_dac_override cap_setuid cap_setgid cap_kill cap_sys_ptrace cap_net_bind_service
ProtectControlGroups=no
RestrictAddressFamilies=
PrivateTmp=no
PrivateNetwork=no
PrivateUsers=no
LimitNOFILE=524288
`

// unitWith is that unit with other values.
func unitWith(changes map[string]string) *Unit {
	u := &Unit{Name: "svc.service", Supervisor: "svc", properties: parseProperties(shown)}
	maps.Copy(u.properties, changes)
	return u
}

// limits are what the unit above was written for.
var limits = systemd.Unit{CheckTimeout: 30 * time.Second, ReadyTimeout: 90 * time.Second, DrainTimeout: 30 * time.Second, Descriptors: 10}

// findingsOf examines a unit for a service that runs as another user.
func findingsOf(u *Unit, wants systemd.Unit) []Finding {
	r := report{about: "unit"}
	u.examine(&r, 257)
	u.examineFor(&r, &config.Config{
		Name: "svc", User: "nobody", RuntimeDirectory: "/run/zddsupervisor/svc",
		Sockets: []fdpass.Spec{{Name: "http", Network: fdpass.TCP, Address: ":80"}, {Name: "ctl", Network: fdpass.Unix, Address: "/tmp/ctl"}},
	}, wants)
	return r.findings
}

func TestGoodUnit(t *testing.T) {
	t.Parallel()
	for _, f := range findingsOf(unitWith(nil), limits) {
		if f.Severity != Fine {
			t.Errorf("%+v", f)
		}
	}
}

// Each line that is not as it should be is found, and no other is.
func TestUnitRules(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		property, value string
		severity        Severity
		what, fix       string
	}{
		{"Type", "simple", Fails, "Type=simple", "Type=notify-reload"},
		{"NotifyAccess", "none", Fails, "NotifyAccess=none", "NotifyAccess=main"},
		{"KillMode", "control-group", Warns, "KillMode=control-group", "KillMode=process"},
		{"KillMode", "mixed", Warns, "KillMode=mixed", "KillMode=process"},
		{"SendSIGHUP", "yes", Warns, "SendSIGHUP=yes", "SendSIGHUP=no"},
		{"Restart", "on-failure", Warns, "Restart=on-failure", "Restart=always"},
		{"ExecReload", "", Warns, "ExecReload= is not set", "ExecReload=/usr/bin/zddsupervisor reload --name svc"},
		{"ExecReload", "{ path=/bin/kill ; argv[]=/bin/kill -HUP $MAINPID ; ignore_errors=no }", Warns, "ExecReload=/bin/kill -HUP $MAINPID", "reload --name svc"},
		{"ExecReload", "{ path=/bin/a ; argv[]=/bin/a b ; x }\n{ path=/bin/c ; argv[]=/bin/c ; x }", Warns, "ExecReload=/bin/a b, ExecReload=/bin/c", "ExecReload=, and below it ExecReload=/usr/bin/zddsupervisor reload --name svc in [Service]"},
		{"ExecStopPost", "", Warns, "ExecStopPost= is not set", "ExecStopPost=/usr/bin/zddsupervisor sweep --name svc"},
		{"FileDescriptorStoreMax", "0", Fails, "FileDescriptorStoreMax=0", "FileDescriptorStoreMax=512"},
		{"FileDescriptorStoreMax", "9", Fails, "less than the 10 descriptors", "FileDescriptorStoreMax=512"},
		{"RuntimeDirectory", "svc", Warns, "RuntimeDirectory=svc", "RuntimeDirectory=zddsupervisor/svc"},
		{"RuntimeDirectoryPreserve", "no", Fails, "RuntimeDirectoryPreserve=no", "RuntimeDirectoryPreserve=restart"},
		{"Delegate", "no", Warns, "Delegate=no", "Delegate=yes"},
		{"OOMPolicy", "stop", Warns, "OOMPolicy=stop", "OOMPolicy=continue"},
		{"ProtectControlGroups", "yes", Warns, "ProtectControlGroups=yes", "ProtectControlGroups=no"},
		{"RestrictAddressFamilies", "AF_INET AF_NETLINK", Fails, "RestrictAddressFamilies=AF_INET AF_NETLINK", "AF_UNIX"},
		{"RestrictAddressFamilies", "AF_INET AF_UNIX", Warns, "RestrictAddressFamilies=AF_INET AF_UNIX", "AF_NETLINK"},
		{"RestrictAddressFamilies", "~AF_NETLINK AF_PACKET", Warns, "RestrictAddressFamilies=~AF_NETLINK", "AF_NETLINK"},
		{"PrivateUsers", "yes", Warns, "PrivateUsers=yes", "PrivateUsers=no"},
		{"PrivateNetwork", "yes", Warns, "PrivateNetwork=yes", "PrivateNetwork=no"},
		{"NeedDaemonReload", "yes", Warns, "was changed", "systemctl daemon-reload"},
		{"TimeoutStartUSec", "1min 30s", Warns, "TimeoutStartSec=1min 30s is less than 4m30s", "TimeoutStartSec=270s"},
		{"TimeoutStopUSec", "59s 999ms", Warns, "TimeoutStopSec=59s 999ms is less than 1m0s", "TimeoutStopSec=60s"},
		{"TimeoutStopUSec", "soon", Unseen, "soon", ""},
		{"User", "www", Fails, "User=www", "User="},
		{"CapabilityBoundingSet", "cap_dac_override cap_setgid cap_kill cap_sys_ptrace cap_net_bind_service", Fails, "CAP_SETUID", "CapabilityBoundingSet=CAP_SETUID"},
		{"CapabilityBoundingSet", "cap_dac_override cap_setuid cap_setgid cap_kill cap_sys_ptrace", Fails, "CAP_NET_BIND_SERVICE", "CapabilityBoundingSet=CAP_NET_BIND_SERVICE"},
	} {
		var bad []Finding
		for _, f := range findingsOf(unitWith(map[string]string{tc.property: tc.value}), limits) {
			if f.Severity != Fine {
				bad = append(bad, f)
			}
		}
		if len(bad) != 1 || bad[0].Severity != tc.severity || !strings.Contains(bad[0].What, tc.what) || !strings.Contains(bad[0].Fix, tc.fix) || bad[0].Means == "" && tc.severity != Unseen {
			t.Errorf("%s=%s: %+v", tc.property, tc.value, bad)
		}
	}
	// This one is about the service, too.
	var bad []string
	for _, f := range findingsOf(unitWith(map[string]string{"PrivateTmp": "yes"}), limits) {
		if f.Severity != Fine {
			bad = append(bad, string(f.Severity)+" "+f.What)
		}
	}
	if got := strings.Join(bad, "; "); got != "warns PrivateTmp=yes; fails with PrivateTmp=yes nobody sees /tmp/ctl" {
		t.Error(got)
	}
	if len(findingsOf(unitWith(map[string]string{"TimeoutStartUSec": "infinity", "TimeoutStopUSec": "infinity"}), limits)) != 3 {
		t.Error("no limit is not enough")
	}
}

// A line of the unit's own beside ours is fine, wherever it stands.
func TestSeveralCommands(t *testing.T) {
	t.Parallel()
	u := unitWith(nil)
	for _, property := range []string{"ExecReload", "ExecStopPost"} {
		u.properties[property] = "{ path=/bin/a ; argv[]=/bin/a b ; ignore_errors=no }\n" + u.properties[property]
	}
	for _, f := range findingsOf(u, limits) {
		if f.Severity != Fine {
			t.Errorf("%+v", f)
		}
	}
}

// A systemd that does not know a property does not show it.
func TestUnknownProperty(t *testing.T) {
	t.Parallel()
	u := unitWith(nil)
	for _, property := range []string{"RuntimeDirectoryPreserve", "OOMPolicy", "PrivateUsers"} {
		delete(u.properties, property)
	}
	for _, f := range findingsOf(u, limits) {
		if f.Severity != Fine {
			t.Errorf("%+v", f)
		}
	}
}

func TestDropIns(t *testing.T) {
	t.Parallel()
	got := findingsOf(unitWith(map[string]string{"DropInPaths": "/etc/systemd/system/svc.service.d/a.conf /run/b.conf"}), limits)
	if want := "svc.service is /etc/systemd/system/svc.service, with /etc/systemd/system/svc.service.d/a.conf, /run/b.conf"; got[0].What != want {
		t.Errorf("got %q", got[0].What)
	}
}

func TestManagerVersion(t *testing.T) {
	t.Parallel()
	for out, want := range map[string]struct {
		version  int
		severity Severity
	}{
		"systemd 257 (257.13-1~deb13u1)\n+PAM": {257, Fine}, "systemd 252 (252.39-1)": {252, Warns}, "systemd 253.4": {253, Warns},
		"systemd 254": {254, Fine}, "": {0, Unseen}, "systemd": {0, Unseen}, "x y": {0, Unseen},
	} {
		var r report
		version := versionOf(out)
		managerVersion(&r, version)
		if version != want.version || len(r.findings) != 1 || r.findings[0].Severity != want.severity {
			t.Errorf("%q: %d, %+v", out, version, r.findings)
		}
	}
}

func TestParseSpan(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"1min 30s": 90 * time.Second, "0": 0, "500ms": 500 * time.Millisecond, "1d 2h 3min 4s 5ms 6us": 26*time.Hour + 3*time.Minute + 4*time.Second + 5*time.Millisecond + 6*time.Microsecond,
		"1.5s": 1500 * time.Millisecond, "1w": 168 * time.Hour,
	} {
		if got, infinite, err := parseSpan(text); got != want || infinite || err != nil {
			t.Errorf("%q: %s, %t, %v", text, got, infinite, err)
		}
	}
	if _, infinite, err := parseSpan("infinity"); !infinite || err != nil {
		t.Error("infinity is a limit")
	}
	for _, text := range []string{"soon", "5", "5parsecs", "s"} {
		if got, _, err := parseSpan(text); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}

// The configuration is the one that the unit's command line names.
func TestUnitSource(t *testing.T) {
	t.Parallel()
	argv := "{ path=/usr/bin/zddsupervisor ; argv[]=/usr/bin/zddsupervisor run --name=x --listen=:80 --config etc/x.toml -- /bin/svc -a b ; ignore_errors=no }"
	source, err := unitWith(map[string]string{"ExecStart": argv, "WorkingDirectory": "/srv"}).Source()
	if err != nil {
		t.Fatal(err)
	}
	if source.Absolute(source.Path) != "/srv/etc/x.toml" || strings.Join(source.Args, "|") != "/bin/svc|-a|b" || source.Flags.Lookup("listen").Value.String() != ":80" {
		t.Errorf("got %+v", source)
	}
	if _, err := unitWith(map[string]string{"ExecStart": "{ path=/x ; argv[]=/x run --lisen=:80 ; ignore_errors=no }"}).Source(); err == nil {
		t.Error("a flag that does not exist is believed")
	}
}
