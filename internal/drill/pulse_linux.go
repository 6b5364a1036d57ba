package drill

import (
	"math"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	beat          = 5 * time.Millisecond
	usualLateness = time.Millisecond      // of a waking on a machine that has nothing else to do
	pulseWidth    = 10 * time.Millisecond // of the time that one figure stands for

	maxProcessors = 16 // that are measured
	anyProcessor  = -1
)

// pulse measures how late this machine wakes a program that waits for a clock: whatever runs on it is held up as much, and that is
// not the service's doing. It measures on each processor by itself: a virtual one may be taken away while the others run on.
// It owns its goroutines, which stop waits for.
type pulse struct {
	over chan struct{}
	all  sync.WaitGroup

	mu      sync.Mutex
	stalled []time.Duration // how much of each part of the run
	longest time.Duration
}

// startPulse measures from begin on, until stop.
func startPulse(begin time.Time) *pulse {
	p := &pulse{over: make(chan struct{})}
	for _, cpu := range processors() {
		p.all.Add(1)
		go func() {
			defer p.all.Done()
			p.run(cpu, begin)
		}()
	}
	return p
}

// processors are those that this process may use, or some of them if there are many.
func processors() []int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return []int{anyProcessor}
	}
	var all []int
	for cpu := 0; len(all) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			all = append(all, cpu)
		}
	}
	return thin(all, maxProcessors)
}

// run measures on one processor, from which its thread cannot go elsewhere.
func (p *pulse) run(cpu int, begin time.Time) {
	runtime.LockOSThread() // and the thread ends with the goroutine
	if cpu != anyProcessor {
		var set unix.CPUSet
		set.Set(cpu)
		// Where that is forbidden the thread measures wherever it is.
		_ = unix.SchedSetaffinity(0, &set)
	}
	pause := unix.NsecToTimespec(beat.Nanoseconds())
	for {
		select {
		case <-p.over:
			return
		default:
		}
		due := time.Since(begin) + beat
		// The thread itself sleeps: a timer of the Go runtime wakes whichever thread it likes. Where a signal has ended it early it
		// was not late.
		_ = unix.Nanosleep(&pause, nil)
		if now := time.Since(begin); now > due {
			p.note(due, now)
		}
	}
}

// note notes a waking that was due and came now: in all that time nothing ran there that waited for its turn. It is called for
// requests that are sent late as well: a thread that has slept gets its turn before one that has worked.
func (p *pulse) note(due, now time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.longest = max(p.longest, now-due)
	for len(p.stalled) <= int(now/pulseWidth) {
		p.stalled = append(p.stalled, 0)
	}
	if now-due < usualLateness {
		return
	}
	for i := due / pulseWidth; i <= now/pulseWidth; i++ {
		part := min(now, (i+1)*pulseWidth) - max(due, i*pulseWidth)
		p.stalled[i] = min(p.stalled[i]+part, pulseWidth)
	}
}

// between is how much of the time between two moments there was a processor on which nothing could go on.
func (p *pulse) between(from, to time.Duration) (all time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := max(from/pulseWidth, 0); i <= to/pulseWidth && int(i) < len(p.stalled); i++ {
		all += p.stalled[i]
	}
	return all
}

// share is the part of all the time in which there was such a processor.
func (p *pulse) share() float64 {
	all := p.between(0, math.MaxInt64)
	return float64(all) / float64(max(len(p.stalled), 1)) / float64(pulseWidth)
}

// worst is the most by which a waking came late.
func (p *pulse) worst() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.longest
}

func (p *pulse) stop() {
	close(p.over)
	p.all.Wait()
}
