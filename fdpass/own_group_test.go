package fdpass

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// A kernelGroup has sockets of lanes in one SO_REUSEPORT group, and asks the kernel where each stands.
type kernelGroup struct {
	t       *testing.T
	sockets map[*lane][]*FD
	address unix.Sockaddr
}

// join adds n sockets of a lane.
func (k *kernelGroup) join(l *lane, n int) {
	k.t.Helper()
	for range n {
		raw, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		must(k.t, err, reusePort.set(raw))
		fd := NewFD(raw)
		k.t.Cleanup(func() { fd.Close() })
		if k.address == nil {
			k.address = &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
		}
		must(k.t, unix.Bind(raw, k.address), unix.Listen(raw, 16))
		k.address, err = unix.Getsockname(raw)
		must(k.t, err)
		k.sockets[l] = append(k.sockets[l], fd)
	}
}

// leave shuts the sockets of a lane down, in any order.
func (k *kernelGroup) leave(l *lane) {
	for _, i := range rand.Perm(len(k.sockets[l])) {
		must(k.t, unix.Shutdown(k.sockets[l][i].Raw(), unix.SHUT_RDWR))
	}
	delete(k.sockets, l)
}

// at returns whose socket gets a connection that is sent to a place.
func (k *kernelGroup) at(place int, any *FD) *lane {
	k.t.Helper()
	must(k.t, steering{to: []int{place}}.attach(any.Raw()))
	raw, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(k.t, err)
	defer unix.Close(raw)
	must(k.t, unix.Connect(raw, k.address))
	for l, fds := range k.sockets {
		for _, fd := range fds {
			if conn, _, err := unix.Accept(fd.Raw()); err == nil {
				unix.Close(conn)
				return l
			}
		}
	}
	k.t.Fatalf("nobody has the connection to place %d", place)
	return nil
}

// TestGroupPlaces has lanes join and leave, and asks the kernel whether their sockets stand where they are counted.
func TestGroupPlaces(t *testing.T) {
	t.Parallel()
	for round := range 30 {
		g := newGroup()
		k := &kernelGroup{t: t, sockets: make(map[*lane][]*FD)}
		k.join(nil, 1)
		holder := k.sockets[nil][0]
		names := map[*lane]string{nil: "the holder"}
		var steps []string
		var lanes []*lane
		for step := range 12 {
			if len(lanes) < 2 || len(lanes) < 4 && rand.IntN(2) == 0 {
				l, n := &lane{seat: &seat{fd: NewFD(-1)}}, 1+rand.IntN(3)
				names[l] = fmt.Sprintf("lane %d", step)
				steps = append(steps, fmt.Sprintf("%s joins with %d", names[l], n))
				k.join(l, n)
				for range n {
					g.order = append(g.order, l)
				}
				lanes = append(lanes, l)
			} else {
				i := rand.IntN(len(lanes))
				l := lanes[i]
				steps = append(steps, names[l]+" leaves")
				k.leave(l)
				lanes = slices.Delete(lanes, i, i+1)
				if !g.gone(l) {
					break // it is not known any more
				}
			}
			for place, want := range g.order {
				if got := k.at(place, holder); got != want {
					t.Fatalf("round %d, %v: at place %d there is %s, want %s", round, steps, place, names[got], names[want])
				}
			}
		}
	}
}

// TestGroupPlacesNotKnown names the cases in which those that move are of several lanes.
func TestGroupPlacesNotKnown(t *testing.T) {
	t.Parallel()
	a, b, c := &lane{}, &lane{}, &lane{}
	for _, test := range []struct {
		order []*lane
		gone  *lane
		known bool
	}{
		{[]*lane{nil, a, b, c}, a, true},
		{[]*lane{nil, a, a, b, b}, a, true},
		{[]*lane{nil, a, a, b, c}, a, false},
		{[]*lane{nil, a, a, b, c, c}, a, true},
		{[]*lane{nil, b, c, a, a, a}, a, true},
		{[]*lane{a, a, nil, b, b}, a, true},
		{[]*lane{a, a, b, nil}, a, false},
		{[]*lane{nil, b}, a, true},
	} {
		g := &group{order: slices.Clone(test.order)}
		if known := g.gone(test.gone); known != test.known {
			t.Errorf("%v without %p: known is %v", test.order, test.gone, known)
		}
		if slices.Contains(g.order, test.gone) || len(g.order) != len(test.order)-countOf(test.order, test.gone) {
			t.Errorf("%v without %p is %v", test.order, test.gone, g.order)
		}
	}
}
