package child_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/child"
)

func TestHolds(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	has, closes, never := listener(t), listener(t), listener(t)
	var inodes []uint64
	for _, link := range []string{inode(t, has), inode(t, closes), inode(t, never)} {
		var n uint64
		if _, err := fmt.Sscanf(link, "socket:[%d]", &n); err != nil {
			t.Fatal(link, err)
		}
		inodes = append(inodes, n)
	}
	// A child has it too, and that counts.
	c := sh("exec 4>&-; sleep 1000 & exec 3>&-; echo ready; wait")
	c.Sockets = []child.NamedFD{{Name: "a", FD: has}, {Name: "b", FD: closes}}
	out := newOutput(t)
	c.Stdout = out.write
	p := start(t, r, c)
	if got := out.line(t); got != "ready" {
		t.Fatal(got)
	}
	held, known, err := p.Tree().Holds(inodes)
	if want := []bool{true, false, false}; err != nil || !known || !slices.Equal(held, want) {
		t.Errorf("got %v, %v, %v; want %v", held, known, err, want)
	}
}
