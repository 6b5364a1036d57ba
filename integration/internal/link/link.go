package link

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"
)

// Options say how bad the wire is.
type Options struct {
	Delay time.Duration // of each packet, each way
	Loss  float64       // of 1: how many packets are lost, each way
	Seed  uint64        // of the chance that decides which
}

// An End is one of the two namespaces. It has an address on the wire, and a loopback interface.
type End struct {
	Address string // without a prefix length

	namespace *os.File
	wire      *os.File // the packets that leave it, and that come to it
}

// A Link is two namespaces and the wire. It owns their descriptors and the goroutines that carry packets.
type Link struct {
	A, B *End

	lost, carried atomic.Int64
	carriers      sync.WaitGroup
}

// queueSize is how many packets may be on the wire each way. What is more is lost, as in any queue.
const queueSize = 1 << 14

// New makes a link. The caller calls Close.
func New(o Options) (l *Link, err error) {
	l = &Link{}
	defer func() {
		if err != nil {
			l.Close()
			l = nil
		}
	}()
	if l.A, err = newEnd("192.0.2.1"); err != nil {
		return l, err
	}
	if l.B, err = newEnd("192.0.2.2"); err != nil {
		return l, err
	}
	l.carry(l.A, l.B, o, 1)
	l.carry(l.B, l.A, o, 2)
	return l, nil
}

// packet is one that is on the wire.
type packet struct {
	data []byte
	due  time.Time
}

// carry begins to carry packets one way, until the ends are closed.
func (l *Link) carry(from, to *End, o Options, way uint64) {
	chance := rand.New(rand.NewPCG(o.Seed, way))
	queue := make(chan packet, queueSize)
	l.carriers.Add(2)
	go func() {
		defer l.carriers.Done()
		defer close(queue)
		buf := make([]byte, 1<<16)
		for {
			n, err := from.wire.Read(buf)
			if err != nil {
				return
			}
			if chance.Float64() < o.Loss {
				l.lost.Add(1)
				continue
			}
			select {
			case queue <- packet{append([]byte(nil), buf[:n]...), time.Now().Add(o.Delay)}:
			default:
				l.lost.Add(1)
			}
		}
	}()
	go func() {
		defer l.carriers.Done()
		for p := range queue {
			time.Sleep(time.Until(p.due))
			if _, err := to.wire.Write(p.data); err != nil {
				continue // the end is closed, or down for a moment; a packet is lost then
			}
			l.carried.Add(1)
		}
	}()
}

// String tells how many packets were carried and lost.
func (l *Link) String() string {
	return fmt.Sprintf("%d packets carried, %d lost", l.carried.Load(), l.lost.Load())
}

// Close ends the wire, and with it the namespaces once no process is in them. It blocks until nothing is carried any more.
func (l *Link) Close() error {
	var errs []error
	for _, e := range []*End{l.A, l.B} {
		if e != nil {
			errs = append(errs, e.wire.Close(), e.namespace.Close())
		}
	}
	l.carriers.Wait()
	return errors.Join(errs...)
}

// Wrapper is a command that runs the arguments after it in the namespace, in the same process, for as long as the link is open.
func (e *End) Wrapper() []string {
	return []string{"nsenter", fmt.Sprintf("--net=/proc/%d/fd/%d", os.Getpid(), e.namespace.Fd()), "--"}
}

// Command returns a command that will run in the namespace.
func (e *End) Command(ctx context.Context, argv ...string) *exec.Cmd {
	argv = append(e.Wrapper(), argv...)
	return exec.CommandContext(ctx, argv[0], argv[1:]...)
}
