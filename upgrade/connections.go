package upgrade

import (
	"strconv"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// Unknown stands in Status for a number that the kernel does not tell.
const Unknown = -1

// A connectionCount is how many connections generations have on sockets.
type connectionCount map[*generation]map[fdpass.Socket]int

// connections asks the kernel which connections to TCP sockets are the generations'. What it does not tell is left out.
// It takes as long as it takes to look at all descriptors of their processes.
func connections(bound []fdpass.Bound, generations []*generation) connectionCount {
	count := make(connectionCount)
	census, err := fdpass.TakeCensus(bound)
	if err != nil {
		return count
	}
	for _, g := range generations {
		inodes, known, err := g.process.Tree().Sockets()
		if err != nil || !known {
			continue
		}
		count[g] = make(map[fdpass.Socket]int)
		for _, b := range bound {
			count[g][b.Socket] = census.Count(b.Socket, inodes)
		}
	}
	return count
}

// of returns how many a generation has in all, or Unknown.
func (c connectionCount) of(g *generation) int {
	sockets, known := c[g]
	if !known {
		return Unknown
	}
	sum := 0
	for _, n := range sockets {
		sum += n
	}
	return sum
}

// on returns how many a generation has on a socket, or Unknown.
func (c connectionCount) on(g *generation, s fdpass.Socket) int {
	sockets, known := c[g]
	if !known {
		return Unknown
	}
	return sockets[s]
}

// all returns how many these generations have on a socket, or Unknown.
func (c connectionCount) all(s fdpass.Socket, generations []*generation) (sum int) {
	for _, g := range generations {
		n := c.on(g, s)
		if n == Unknown {
			return Unknown
		}
		sum += n
	}
	return sum
}

// count writes a number that may be Unknown.
func count(n int) string {
	if n == Unknown {
		return "unknown"
	}
	return strconv.Itoa(n)
}
