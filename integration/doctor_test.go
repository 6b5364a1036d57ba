package integration_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/integration/internal/rootfs"
	"github.com/zddsupervisor/zddsupervisor/internal/doctor"
)

// doctor runs "zddsupervisor doctor", and returns what it found that is not fine.
func (s *supervised) doctor(args ...string) (status int, bad []doctor.Finding) {
	s.t.Helper()
	r := s.run(append([]string{supervisorPath, "doctor", "--json"}, args...)...)
	var all []doctor.Finding
	if err := json.Unmarshal([]byte(r.Stdout), &all); err != nil {
		s.t.Fatalf("%v: %s", err, r)
	}
	for _, f := range all {
		if f.Severity != doctor.Fine {
			bad = append(bad, f)
		}
	}
	return r.Status, bad
}

// TestDoctor has a unit that is as printed, and then things that are not as they should be, one after the other: each is found, and the line that
// it says makes it right.
func TestDoctor(t *testing.T) {
	onEach(t, func(t *testing.T, m *testMachine) {
		s := supervise(t, m, config("-version=1"))
		healthy := func(when string) {
			t.Helper()
			if status, bad := s.doctor("--name", "svc"); status != 0 || len(bad) > 0 {
				t.Errorf("%s: exit status %d, %+v", when, status, bad)
			}
		}
		healthy("before the start")
		s.must("systemctl", "start", unitName)
		healthy("started")
		if status, bad := s.doctor("--config", configPath); status != 0 || len(bad) > 0 {
			t.Errorf("by its configuration: exit status %d, %+v", status, bad)
		}
		if status, bad := s.doctor(); status != 0 || len(bad) > 0 {
			t.Errorf("the machine alone: exit status %d, %+v", status, bad)
		}

		for _, tc := range []struct {
			line  string
			fails bool
		}{
			{"Type=simple", true}, {"FileDescriptorStoreMax=0", true}, {"FileDescriptorStoreMax=1", true},
			{"RuntimeDirectoryPreserve=no", true}, {"RestrictAddressFamilies=AF_INET", true},
			{"KillMode=control-group", false}, {"SendSIGHUP=yes", false}, {"Restart=no", false}, {"ExecReload=", false}, {"ExecStopPost=", false},
			{"RuntimeDirectory=\nRuntimeDirectory=elsewhere", false}, {"Delegate=no", false}, {"OOMPolicy=stop", false}, {"ProtectControlGroups=yes", false},
			{"PrivateTmp=yes", false}, {"PrivateUsers=yes", false}, {"PrivateNetwork=yes", false}, {"LimitNOFILE=1024", false},
			{"TimeoutStartSec=10s", false}, {"TimeoutStopSec=10s", false},
		} {
			const dropIn = "/etc/systemd/system/svc.service.d/bad.conf"
			s.write(dropIn, "[Service]\n"+tc.line+"\n")
			s.must("systemctl", "daemon-reload")
			status, bad := s.doctor("--name", "svc")
			key, _, _ := strings.Cut(tc.line, "=")
			if (status == 1) != tc.fails || len(bad) != 1 || !strings.HasPrefix(bad[0].What, key+"=") {
				t.Errorf("%s: exit status %d, %+v", tc.line, status, bad)
				continue
			}
			// The line is what it says it is: with it, all is well again.
			fix, _, _ := strings.Cut(bad[0].Fix, " in [Service] of ")
			s.write("/etc/systemd/system/svc.service.d/fix.conf", "[Service]\n"+key+"=\n"+fix+"\n")
			s.must("rm", dropIn)
			s.must("systemctl", "daemon-reload")
			healthy(fix)
			s.must("rm", "-r", "/etc/systemd/system/svc.service.d")
		}
		s.must("systemctl", "daemon-reload")

		// What is wrong with the service.
		for text, want := range map[string]string{
			strings.Replace(config(), servicePath, "/usr/local/bin/missing", 1):                        "/usr/local/bin/missing",
			"user = \"nobody\"\ndirectory = \"/root\"\n" + config():                                    "/root",
			"environment-file = [\"/etc/missing\"]\n" + config():                                       "/etc/missing",
			"comand = []\n" + config():                                                                 `did you mean "command"`,
			strings.Replace(config(), "tcp://"+address, "unix:///run/missing/sock", 1):                 "/run/missing",
			strings.Replace(config(), "tcp://"+address, "systemd:missing", 1):                          "FileDescriptorName=missing",
			"releases = { directory = \"/usr\", current = \"/etc/hostname-is-missing\" }\n" + config(): "hostname-is-missing",
			strings.Replace(config(), "timeout = \"20s\"", "timeout = \"20s\"\nby = \"ready\"", 1):     `"ready"`,
		} {
			s.write(configPath, text)
			status, bad := s.doctor("--name", "svc")
			if status != 1 || len(bad) == 0 || bad[0].Severity != doctor.Fails || !strings.Contains(bad[0].What, want) || bad[0].Fix == "" {
				t.Errorf("%s\nexit status %d, %+v", text, status, bad)
			}
		}
		s.write(configPath, config())

		// A stranger on the port, once the unit is stopped.
		s.must("systemctl", "stop", unitName)
		s.unit("stranger.socket", "[Socket]\nListenStream="+address+"\nFileDescriptorName=stranger\n")
		s.write("/etc/systemd/system/stranger.service", "[Service]\nExecStart=/bin/sleep infinity\n")
		s.must("systemctl", "daemon-reload")
		s.must("systemctl", "start", "stranger.socket")
		if status, bad := s.doctor("--name", "svc"); status != 1 || len(bad) != 1 || !strings.Contains(bad[0].What, "taken by systemd") {
			t.Errorf("a .socket unit has the port: exit status %d, %+v", status, bad)
		}
		s.must("systemctl", "start", "stranger.service")
		if status, bad := s.doctor("--name", "svc"); status != 1 || len(bad) != 1 || !strings.Contains(bad[0].What, "(sleep)") {
			t.Errorf("a stranger has the port: exit status %d, %+v", status, bad)
		}
		s.must("systemctl", "stop", "stranger.socket", "stranger.service")
		s.must("systemctl", "start", unitName)

		// It needs no root, and says what it could not see.
		s.must("chmod", "600", configPath)
		r := s.run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", supervisorPath, "doctor", "--name", "svc")
		if r.Status != 0 || !strings.Contains(r.Stdout, "unseen") || !strings.Contains(r.Stdout, configPath+" may not be read") {
			t.Errorf("as nobody: %s", r)
		}
		if r := s.run(supervisorPath, "doctor", "--name", "other"); r.Status != 2 || !strings.Contains(r.Stderr, "other.service") {
			t.Errorf("a unit that is not there: %s", r)
		}
	})
}

// TestWithoutRuntimeDirectory is a user whom logind has not given a directory: what to do is told.
func TestWithoutRuntimeDirectory(t *testing.T) {
	t.Parallel()
	s := asInstalled(t, boot(t, rootfs.Trixie()))
	nobody := []string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", supervisorPath}
	r := s.run(append(nobody, "run", "--listen", ":8080", "--", servicePath)...)
	for _, want := range []string{"runtime-directory", "XDG_RUNTIME_DIR is not set", "--runtime-directory"} {
		if r.Status != 2 || !strings.Contains(r.Stderr, want) {
			t.Errorf("run does not say %q: %s", want, r)
		}
	}
	if r := s.run(append(nobody, "status")...); r.Status != 3 || !strings.Contains(r.Stderr, "XDG_RUNTIME_DIR is not set") || !strings.Contains(r.Stderr, "--control") {
		t.Errorf("status: %s", r)
	}
	if r := s.run(supervisorPath, "status"); r.Status != 3 || strings.Contains(r.Stderr, "XDG_RUNTIME_DIR") {
		t.Errorf("status as root: %s", r)
	}
}
