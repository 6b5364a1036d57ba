package redirect_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/redirect"
)

// apart runs the rest of the test in a network namespace of its own, with a
// loopback interface. The thread ends with the test.
func apart(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a network namespace needs root")
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	up, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	up.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, up); err != nil {
		t.Fatal(err)
	}
}

func table(addr string) redirect.Table {
	return redirect.Table{Name: "zddsupervisor-test", Public: redirect.Public{Addr: netip.MustParseAddrPort(addr)}, Private: []uint16{18081, 18082}}
}

// answer listens on a port and answers with text. The sockets are made on the
// test's thread.
func answer(t *testing.T, address, text string) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, text)
			go func() { // the other end closes first
				c.Read(make([]byte, 1))
				c.Close()
			}()
		}
	}()
}

// ask says who answers on an address.
func ask(t *testing.T, address string) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	b := make([]byte, 16)
	n, err := c.Read(b)
	if err != nil {
		return err.Error()
	}
	return string(b[:n])
}

func TestRoutes(t *testing.T) {
	apart(t)
	answer(t, ":8080", "public")
	answer(t, ":18081", "one")
	answer(t, ":18082", "two")
	for _, test := range []struct {
		public  string
		v6only  bool
		reached []string
		not     []string
	}{
		{"[::]:8080", false, []string{"127.0.0.1:8080", "127.1.2.3:8080", "[::1]:8080"}, nil},
		{"[::]:8080", true, []string{"[::1]:8080"}, []string{"127.0.0.1:8080"}},
		{"0.0.0.0:8080", false, []string{"127.0.0.1:8080"}, []string{"[::1]:8080"}},
		{"127.0.0.2:8080", false, []string{"127.0.0.2:8080"}, []string{"127.0.0.1:8080", "[::1]:8080"}},
		{"[::1]:8080", false, []string{"[::1]:8080"}, []string{"127.0.0.1:8080"}},
	} {
		tab := table(test.public)
		tab.Public.V6Only = test.v6only
		for _, r := range []redirect.Route{{}, {To: 18081}, {To: 18082}, {To: 18081, Canary: 18082, Share: 0.25}, {Canary: 18082, Share: 0.5}, {To: 18082}} {
			if err := tab.Set(r); err != nil {
				t.Fatal(err)
			}
			if got, err := tab.Read(); got != r || err != nil {
				t.Fatalf("%s, %+v: read %+v, %v", test.public, r, got, err)
			}
			want := map[uint16]string{0: "public", 18081: "one", 18082: "two"}[r.To]
			if r.Canary == 0 {
				for _, address := range test.reached {
					if got := ask(t, address); got != want {
						t.Errorf("%s, %+v: %s answered for %s", test.public, r, got, address)
					}
				}
			}
			for _, address := range test.not {
				if got := ask(t, address); got != "public" {
					t.Errorf("%s, %+v: %s answered for %s", test.public, r, got, address)
				}
			}
		}
		if err := tab.Remove(); err != nil {
			t.Fatal(err)
		}
		if _, err := tab.Read(); !errors.Is(err, redirect.ErrMissing) {
			t.Errorf("after its removal: %v", err)
		}
		if err := tab.Remove(); err != nil {
			t.Errorf("removing it again: %v", err)
		}
	}
}

func TestShare(t *testing.T) {
	apart(t)
	answer(t, ":18081", "one")
	answer(t, ":18082", "two")
	tab := table("[::]:8080")
	if err := tab.Set(redirect.Route{To: 18081, Canary: 18082, Share: 0.25}); err != nil {
		t.Fatal(err)
	}
	const n = 1000
	got := make(map[string]int)
	for range n {
		got[ask(t, "127.0.0.1:8080")]++
	}
	if two := got["two"]; got["one"]+two != n || two < n/4-100 || two > n/4+100 { // seven sigma
		t.Errorf("of %d connections, a quarter of which was to go to two: %v", n, got)
	}
}

// An open connection stays where it is when the route changes.
func TestOpenConnectionsStay(t *testing.T) {
	apart(t)
	l, err := net.Listen("tcp", ":18081")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	answer(t, ":18082", "two")
	tab := table("[::]:8080")
	if err := tab.Set(redirect.Route{To: 18081}); err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial("tcp", "127.0.0.1:8080")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for _, r := range []redirect.Route{{To: 18082}, {}, {To: 18082}} {
		if err := tab.Set(r); err != nil {
			t.Fatal(err)
		}
		for _, end := range []net.Conn{client, server} {
			other := map[net.Conn]net.Conn{client: server, server: client}[end]
			fmt.Fprint(end, "x")
			if _, err := other.Read(make([]byte, 1)); err != nil {
				t.Fatalf("after %+v: %v", r, err)
			}
		}
	}
	if got := ask(t, "127.0.0.1:8080"); got != "two" {
		t.Errorf("a new connection: %s", got)
	}
}

// Whatever somebody else has done to the table is seen.
func TestForeign(t *testing.T) {
	apart(t)
	tab := table("[::]:8080")
	own := &nftables.Table{Family: nftables.TableFamilyINet, Name: tab.Name}
	chain := func(name string) *nftables.Chain { return &nftables.Chain{Name: name, Table: own} }
	accept := []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}
	for name, change := range map[string]func(c *nftables.Conn){
		"an extra rule": func(c *nftables.Conn) {
			c.AddRule(&nftables.Rule{Table: own, Chain: chain("output"), Exprs: accept})
		},
		"an extra rule before": func(c *nftables.Conn) {
			c.InsertRule(&nftables.Rule{Table: own, Chain: chain("prerouting"), Exprs: accept})
		},
		"a rule less":          func(c *nftables.Conn) { c.FlushChain(chain("output")) },
		"the guard is gone":    func(c *nftables.Conn) { c.FlushChain(chain("input")) },
		"an extra chain":       func(c *nftables.Conn) { c.AddChain(chain("mine")) },
		"a chain less":         func(c *nftables.Conn) { c.FlushChain(chain("input")); c.DelChain(chain("input")) },
		"another private port": nil,
	} {
		t.Run(name, func(t *testing.T) {
			apart(t)
			if err := tab.Set(redirect.Route{To: 18081}); err != nil {
				t.Fatal(err)
			}
			reader := tab
			if change == nil {
				reader.Private = []uint16{18082, 18083}
			} else {
				c, err := nftables.New()
				if err != nil {
					t.Fatal(err)
				}
				change(c)
				if err := c.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			_, err := reader.Read()
			if !errors.Is(err, redirect.ErrForeign) {
				t.Fatalf("read: %v", err)
			}
			t.Log(err)
		})
	}
}

func TestTables(t *testing.T) {
	apart(t)
	tab := table("[::]:8080")
	if err := tab.Set(redirect.Route{}); err != nil {
		t.Fatal(err)
	}
	for prefix, want := range map[string]string{"zddsupervisor-": "[zddsupervisor-test]", "other-": "[]"} {
		if names, err := redirect.Tables(prefix); fmt.Sprint(names) != want || err != nil {
			t.Errorf("%s: %v, %v", prefix, names, err)
		}
	}
}
