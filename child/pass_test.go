package child_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/child"
)

// environment runs a program with sockets at these addresses, and returns what it has in its environment.
func environment(t *testing.T, pass []child.Pass, env []string, addresses ...string) []string {
	t.Helper()
	c := child.Command{Path: "/bin/cat", Args: []string{"cat", "/proc/self/environ"}, Pass: pass, Env: env, Generation: 7}
	for i, address := range addresses {
		c.Sockets = append(c.Sockets, child.NamedFD{Name: fmt.Sprintf("s%d", i), FD: listener(t), Address: address})
	}
	return strings.Split(strings.TrimSuffix(run(t, newReaper(t), c), "\x00"), "\x00")
}

// TestPass shows what each protocol puts into the environment, and that nothing of the kind that was there before is left.
func TestPass(t *testing.T) {
	t.Parallel()
	all := []string{"tcp://127.0.0.1:80", "tcp6://[::1]:81", "unix:///run/a%3fb"}
	for pass, want := range map[child.Pass][]string{
		child.PassListenFDs: {"LISTEN_FDS=3", "LISTEN_FDNAMES=s0:s1:s2"},
		child.PassServerStarter: {
			"SERVER_STARTER_PORT=127.0.0.1:80=3;[::1]:81=4;/run/a?b=5", "SERVER_STARTER_GENERATION=7"},
		child.PassEinhorn: {
			fmt.Sprintf("EINHORN_MASTER_PID=%d", os.Getpid()), "EINHORN_FD_COUNT=3", "EINHORN_FD_0=3", "EINHORN_FD_FAMILY_0=AF_INET",
			"EINHORN_FD_1=4", "EINHORN_FD_FAMILY_1=AF_INET6", "EINHORN_FD_2=5", "EINHORN_FD_FAMILY_2=AF_UNIX", "EINHORN_FDS=3 4 5"},
		child.PassNginx:  {"NGINX=3;4;5;"},
		child.PassPHPFPM: {"FPM_SOCKETS=127.0.0.1:80=3,::1:81=4,/run/a?b=5"},
	} {
		t.Run(string(pass), func(t *testing.T) {
			t.Parallel()
			var before []string
			for _, entry := range want {
				name, _, _ := strings.Cut(entry, "=")
				if !pass.Owns(name) {
					t.Errorf("it does not own %s", name)
				}
				before = append(before, name+"=old")
			}
			got := environment(t, []child.Pass{pass}, append(before, "A=1", "LISTEN_FDS=9"), all...)
			if pass == child.PassListenFDs { // the shim adds it
				got = slices.DeleteFunc(got, func(entry string) bool { return strings.HasPrefix(entry, "LISTEN_PID=") })
			}
			if want := append(want, "A=1"); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			if got := environment(t, []child.Pass{pass}, append(before, "A=1")); !slices.Equal(got, []string{"A=1"}) {
				t.Errorf("without sockets: %q", got)
			}
			if !slices.Contains(child.Passes(), pass) {
				t.Error("it is not among all")
			}
		})
	}
	if got := len(child.Passes()); got != 5 {
		t.Errorf("there are %d protocols, and not all have a test", got)
	}
}

// TestSeveralPasses has several protocols at once, or none.
func TestSeveralPasses(t *testing.T) {
	t.Parallel()
	got := environment(t, []child.Pass{child.PassNginx, child.PassListenFDs}, nil, "@a")
	if len(got) != 4 || got[0] != "NGINX=3;" || got[1] != "LISTEN_FDS=1" || !strings.HasPrefix(got[3], "LISTEN_PID=") {
		t.Errorf("got %q", got)
	}
	if got := environment(t, []child.Pass{}, []string{"NGINX=mine"}, "@a"); !slices.Equal(got, []string{"NGINX=mine"}) {
		t.Errorf("with none: %q", got)
	}
}

// TestPassCheck shows which sockets a protocol cannot tell of.
func TestPassCheck(t *testing.T) {
	t.Parallel()
	bad := map[child.Pass][]string{
		child.PassServerStarter: {"@a", "unix:///a%3d", "unix:///a;b", "unixpacket:///a", "unixgram:///a"},
		child.PassPHPFPM:        {"@a", "unix:///a%3d", "unix:///a,b", "unixpacket:///a", "unixgram:///a", "udp://127.0.0.1:1"},
		"no-such":               {"tcp://127.0.0.1:1"},
	}
	for _, pass := range append(child.Passes(), "no-such") {
		for _, address := range []string{"tcp://127.0.0.1:1", "tcp6://[::1]:1", "udp://127.0.0.1:1", "unix:///a", "@a", "unix:///a%3d", "unix:///a;b", "unix:///a,b", "unixpacket:///a", "unixgram:///a"} {
			if pass == "no-such" && address != "tcp://127.0.0.1:1" {
				continue
			}
			err := pass.Check(address)
			wrong := slices.Contains(bad[pass], address)
			if (err != nil) != wrong {
				t.Errorf("%s, %s: %v", pass, address, err)
			}
		}
	}
	if child.Pass("no-such").Owns("A") || child.PassNginx.Owns("NGINXX") {
		t.Error("what is no protocol's variable is owned")
	}
}
