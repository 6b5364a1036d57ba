package standalone

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/load"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

const (
	steeredSocket = "[[socket]]\nname = \"main\"\nlisten = \"tcp://127.0.0.1:0\"\n"
	sharedSocket  = steeredSocket + "mode = \"shared\"\n"
)

// tested is a configuration with the testservice, that serves with Go's net/http unless the flags say otherwise.
func tested(version string, flags ...string) configuration {
	return configuration{command: append([]string{testservice, "-version=" + version, "-serve=http"}, flags...), sockets: steeredSocket}
}

// shared makes its socket a shared one.
func (c configuration) shared() configuration {
	c.sockets = sharedSocket
	return c
}

// with adds TOML.
func (c configuration) with(more string) configuration {
	c.sockets = more + "\n" + c.sockets
	return c
}

// plainHTTP is net/http with its Shutdown, and nothing else.
func plainHTTP(version string) configuration { return tested(version) }

// Go's net/http, with no care taken in the service: steered, not one request on a new connection fails, twice in a row; shared, some
// do, so that the same load shows that it can. This one has the machine for itself.
func TestPlainHTTPLosesNothing(t *testing.T) {
	const between = 1000 // so that the load is not all of it while versions start
	steered := 100
	if testing.Short() {
		steered = 10
	}
	for range 2 {
		passage{service: plainHTTP, handoffs: steered, between: between}.mustBeClean(t)
	}
	failed, handoffs := 0, 0
	for failed == 0 && handoffs < 300 {
		result, through := passage{service: func(v string) configuration { return plainHTTP(v).shared() }, handoffs: 50, between: 1500}.run(t)
		if n := result.Count(load.Refused); n > 0 {
			t.Errorf("shared: %d connections were refused", n)
		}
		if v := result.Judge(through); v.Verdict == load.Inconclusive {
			t.Errorf("shared: %s", v)
		}
		handoffs += len(through)
		failed += result.Failed()
		t.Logf("shared, %d handoffs: %s", len(through), describeLoad(result))
	}
	if failed == 0 {
		t.Errorf("shared, nothing failed in %d handoffs: this load cannot show that steering makes a difference", handoffs)
	}
}

// The old generation does not run for a while just when it has to accept what is on its way to it.
func TestOldGenerationStalls(t *testing.T) {
	t.Parallel()
	round := 0
	passage{service: plainHTTP, handoffs: 20, between: 500, disturb: func(old *upgrade.GenerationStatus) func(upgrade.Progress) {
		moments := []string{upgrade.Warming.String(), upgrade.Cutting.String(), ""} // "" is any
		moment := moments[round%len(moments)]
		round++
		stalled := stall(t, old.PID, 300*time.Millisecond)
		if moment == "" {
			time.AfterFunc(time.Duration(rand.Int64N(int64(60*time.Millisecond))), stalled.begin)
		}
		return func(p upgrade.Progress) {
			if !p.Ended() {
				return
			}
			switch p.Step {
			case moment:
				stalled.begin()
			case "":
				stalled.wait()
			}
		}
	}}.mustBeClean(t)
}

// A stalling stops a process for a time, once.
type stalling struct {
	once  sync.Once
	begin func()
	over  chan struct{}
}

// stall prepares to stop a process: nobody else can have its pid by then.
func stall(t *testing.T, pid int, d time.Duration) *stalling {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := &stalling{over: make(chan struct{})}
	s.begin = func() {
		s.once.Do(func() {
			_ = unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0) // it may have ended
			time.AfterFunc(d, func() {
				_ = unix.PidfdSendSignal(fd, unix.SIGCONT, nil, 0)
				unix.Close(fd)
				close(s.over)
			})
		})
	}
	return s
}

// wait blocks until the process goes on.
func (s *stalling) wait() {
	s.begin() // if it has not come to it
	<-s.over
}

// Every core of the machine has something else to do; not those of other tests, and so this one is not parallel.
func TestBusyMachine(t *testing.T) {
	busy(t)
	passage{service: plainHTTP, handoffs: 20, between: 500}.mustBeClean(t)
}

// busy keeps every core busy until the test is over.
func busy(t *testing.T) {
	t.Helper()
	for range runtime.NumCPU() {
		c := exec.Command("sh", "-c", "while :; do :; done")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			c.Process.Kill()
			c.Wait()
		})
	}
}

// One client, one connection after the other: once the new version has answered, the old one never does again. With a shared socket
// it does, which shows that this client would see it.
func TestCutoverIsOneInstant(t *testing.T) {
	t.Parallel()
	// It serves before it is ready, so that there is time for both to answer, if they get anything.
	service := func(version string) configuration { return tested(version, "-ready-after=30ms") }
	mixed, failed := mixedHandoffs(t, service, 20)
	if len(mixed) > 0 || failed > 0 {
		t.Errorf("steered, the old version answered after the new one: %v; %d requests failed", mixed, failed)
	}
	mixed, failed = mixedHandoffs(t, func(v string) configuration { return service(v).shared() }, 20)
	t.Logf("shared, in %d of 20 handoffs the old version answered after the new one; %d requests failed", len(mixed), failed)
	if len(mixed) == 0 {
		t.Error("shared, the old version did not answer after the new one: this client does not see it")
	}
}

// mixedHandoffs hands off n times while one client asks, and tells to which versions a handoff went after whose first answer the
// one before it answered again, and how many requests failed.
func mixedHandoffs(t *testing.T, service func(version string) configuration, n int) (mixed []string, failed int) {
	t.Helper()
	s := start(t, service("v0"))
	client, err := load.Start(t.Context(), load.Config{Address: s.address(), Workers: 1, Duration: 5 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Stop()
	for i := range n {
		version := fmt.Sprintf("v%d", i+1)
		service(version).write(t, s.dir)
		s.mustReload()
		if err := client.Version(t.Context(), version); err != nil {
			t.Fatal(err)
		}
	}
	result := client.Stop()
	newest, before := 0, make(map[int]bool) // versions are numbered as they answer first
	for _, q := range result.Requests {
		if q.Version < 0 {
			continue
		}
		if q.Version < newest {
			before[newest] = true
		}
		newest = max(newest, q.Version)
	}
	for i, version := range result.Versions {
		if before[i] {
			mixed = append(mixed, version)
		}
	}
	return mixed, result.Failed()
}
