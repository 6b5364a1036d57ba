package standalone

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/internal/load"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// A reloading is a reload command that runs.
type reloading struct {
	t              *testing.T
	cmd            *exec.Cmd
	done           chan struct{}
	err            error
	stdout, stderr bytes.Buffer
}

// reloadTo begins to hand off to a configuration.
func (s *supervisor) reloadTo(c configuration) *reloading {
	s.t.Helper()
	c.write(s.t, s.dir)
	r := &reloading{t: s.t, done: make(chan struct{})}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	r.cmd = exec.CommandContext(ctx, program, "reload", "--control", s.control())
	r.cmd.Stdout, r.cmd.Stderr = &r.stdout, &r.stderr
	if err := r.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer cancel()
		r.err = r.cmd.Wait()
		close(r.done)
	}()
	s.t.Cleanup(func() {
		cancel()
		<-r.done
	})
	return r
}

// wait blocks until the command has ended, and returns its exit status and what it has printed.
func (r *reloading) wait() (status int, stdout, stderr string) {
	r.t.Helper()
	<-r.done
	var exit *exec.ExitError
	if r.err != nil && !errors.As(r.err, &exit) {
		r.t.Fatal(r.err)
	}
	return r.cmd.ProcessState.ExitCode(), r.stdout.String(), r.stderr.String()
}

// must blocks until the command has ended, and fails the test if that was not well.
func (r *reloading) must() {
	r.t.Helper()
	if status, stdout, stderr := r.wait(); status != 0 {
		r.t.Fatalf("reload: exit status %d\n%s%s", status, stdout, stderr)
	}
}

// mustFail blocks until the command has ended, and fails the test if that was well, or has no reason with this text.
func (r *reloading) mustFail(reasons ...string) {
	r.t.Helper()
	status, stdout, stderr := r.wait()
	if status != 1 {
		r.t.Errorf("reload: exit status %d, want 1\n%s%s", status, stdout, stderr)
	}
	for _, reason := range reasons {
		if !bytes.Contains([]byte(stderr), []byte(reason)) {
			r.t.Errorf("reload: the reason has no %q: %s", reason, stderr)
		}
	}
}

// at waits until a handoff is at a step, and returns the generation that it goes to.
func (s *supervisor) at(phase upgrade.Phase) *upgrade.GenerationStatus {
	s.t.Helper()
	st := s.until("step "+phase.String(), func(st *control.Status) bool {
		if st.Current == nil || st.Phase != phase.String() {
			return false
		}
		return phase != upgrade.Sharing || shareOf(st, st.Current.To) > 0
	})
	for i, g := range st.Generations {
		if g.Number == st.Current.To {
			return &st.Generations[i]
		}
	}
	s.t.Fatalf("the generation that the handoff goes to is not there: %+v", st)
	return nil
}

// shareOf is what part of the first socket's new connections a generation gets.
func shareOf(st *control.Status, generation int) float64 {
	for _, seat := range st.Sockets[0].Seats {
		if seat.Generation == generation {
			return seat.Share
		}
	}
	return 0
}

// only fails the test if another generation than this is there, or if it has another process than before.
func (s *supervisor) only(before *upgrade.GenerationStatus) {
	s.t.Helper()
	if after := s.settled(); after.Number != before.Number || after.PID != before.PID {
		s.t.Errorf("generation %d (pid %d) serves, before it was %d (pid %d)", after.Number, after.PID, before.Number, before.PID)
	}
}

// backgroundRate is how many requests a second go on beside what a test does: enough to see a gap of some milliseconds, and not so many
// that nothing else gets to run.
const backgroundRate = 500

// loaded begins a load, which ends with the test at the latest.
func (s *supervisor) loaded(workers int) *load.Client {
	s.t.Helper()
	client, err := load.Start(s.t.Context(), load.Config{Address: s.address(), Workers: workers, Rate: backgroundRate, Duration: 2 * time.Minute})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { client.Stop() })
	return client
}

// answers makes n connections, one request on each, and counts who answers. None may fail.
func (s *supervisor) answers(n int) map[string]int {
	s.t.Helper()
	client, err := load.Start(s.t.Context(), load.Config{Address: s.address(), Workers: 8, Duration: 2 * time.Minute, MaxRequests: n})
	if err != nil {
		s.t.Fatal(err)
	}
	<-client.Done()
	result := client.Stop()
	if result.Failed() > 0 || len(result.Requests) != n {
		s.t.Errorf("%d requests wanted: %s", n, result)
	}
	seen := make(map[string]int)
	for _, version := range result.Versions {
		seen[version], _, _ = result.Seen(version)
	}
	return seen
}

// allBy fails the test if new connections do not all go to one version.
func (s *supervisor) allBy(version string) {
	s.t.Helper()
	const n = 300
	if seen := s.answers(n); seen[version] != n {
		s.t.Errorf("%d answers: %v, want all of %s", n, seen, version)
	}
}

// A death is when a process was killed.
type death struct{ from, to time.Time }

// kill kills a process, and blocks until it is dead and has let go of everything.
func kill(t *testing.T, pid int) death {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	d := death{from: time.Now()}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
		t.Fatal(err)
	}
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n != 1 {
			t.Fatalf("pid %d does not die: %v", pid, err)
		}
		d.to = time.Now()
		return d
	}
}

// spared fails the test if a request failed that was not under way when a process died.
func spared(t *testing.T, r *load.Result, d death) {
	t.Helper()
	from, to := d.from.Sub(r.Begin), d.to.Sub(r.Begin)
	under := 0
	for _, q := range r.Requests {
		switch {
		case q.Kind == load.OK:
		case q.Start <= to && q.End >= from && q.Kind != load.Refused && q.Kind != load.Timeout:
			under++
		default:
			t.Errorf("a request from %s to %s failed (%s: %s), and the process died from %s to %s", q.Start, q.End, q.Kind, r.Examples[q.Kind], from, to)
		}
	}
	t.Logf("%d requests failed with the process that was killed\n%s", under, describeLoad(r))
}

// noneSince fails the test if a version has answered a request that was sent after a time, or if it has never answered.
func noneSince(t *testing.T, r *load.Result, version string, since time.Time) {
	t.Helper()
	n := 0
	for _, q := range r.Requests {
		if q.Version < 0 || r.Versions[q.Version] != version {
			continue
		}
		n++
		if q.Start > since.Sub(r.Begin) {
			t.Errorf("%s has answered a request of %s, after %s", version, q.Start, since.Sub(r.Begin))
		}
	}
	if n == 0 {
		t.Errorf("%s has never answered", version)
	}
}

// aboutOf fails the test if hits of n are not a share of them, as far as chance allows that. By the bound of Chernoff and Hoeffding,
// n connections that go their way by chance, each by itself, come as far from their share as it takes to fail here less than once in
// 10^9 times: a share of q instead of p has a probability of at most exp(-n D(q||p)), D being the relative entropy.
func aboutOf(t *testing.T, hits, n int, p float64) {
	t.Helper()
	const once = 1e-9
	q := float64(hits) / float64(n)
	chance := 2 * math.Exp(-float64(n)*entropy(q, p)) // on either side
	t.Logf("%d of %d connections, %.2f%% where it is to be %g%%", hits, n, q*100, p*100)
	if chance < once {
		t.Errorf("%d of %d connections are not %g%%: by chance that happens less than once in %g times", hits, n, p*100, 1/chance)
	}
}

// entropy is the relative entropy of two coins.
func entropy(q, p float64) float64 {
	d := 0.0
	if q > 0 {
		d += q * math.Log(q/p)
	}
	if q < 1 {
		d += (1 - q) * math.Log((1-q)/(1-p))
	}
	return d
}

func (s *supervisor) promote() {
	s.t.Helper()
	if status, _, stderr := command(s.t, "promote", "--control", s.control()); status != 0 {
		s.t.Fatalf("promote: exit status %d, %s", status, stderr)
	}
}

func (s *supervisor) abort() {
	s.t.Helper()
	if status, _, stderr := command(s.t, "abort", "--control", s.control()); status != 0 {
		s.t.Fatalf("abort: exit status %d, %s", status, stderr)
	}
}

func canary(steps string) string { return fmt.Sprintf("[handoff]\ncanary = %q\n", steps) }

// Who waits for a handoff that settles is told what is still open: here a connection whose client says nothing.
func TestSettlingTellsWhatIsOpen(t *testing.T) {
	t.Parallel()
	s := start(t, tested("v0").with("[settle]\nmax = \"10s\"\n"))
	c, err := net.Dial("tcp", s.address())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const open = "generation 1 to be quiet, at most 10s; connections on socket main: 1 without their first request or answer"
	var told []string
	if _, err := s.client.Reload(t.Context(), 0, func(p upgrade.Progress) {
		if p.Waits != "" && p.Step == upgrade.Settling.String() {
			told = append(told, p.Waits)
		}
		if p.Waits == open { // it need not wait any longer
			c.Close()
		}
	}); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(told, open) {
		t.Errorf("told %q, want %q", told, open)
	}
}
