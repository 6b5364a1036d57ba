package child_test

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/fdpass"
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

// A socket that members have is duplicated, and it shows when the last of them has let go of it, and how.
func TestDuplicates(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	kept, closed, never := listener(t), listener(t), listener(t)
	inodes := make(map[uint64]bool)
	numbers := make(map[*fdpass.FD]uint64)
	for _, fd := range []*fdpass.FD{kept, closed, never} {
		var n uint64
		if _, err := fmt.Sscanf(inode(t, fd), "socket:[%d]", &n); err != nil {
			t.Fatal(err)
		}
		inodes[n], numbers[fd] = true, n
	}
	// The second one is that of a child alone, until that ends.
	c := sh("sleep 1000 & child=$!; exec 4>&-; echo ready; read x; kill $child; wait $child; echo closed; read x")
	c.Sockets = []child.NamedFD{{Name: "a", FD: kept}, {Name: "b", FD: closed}}
	out := newOutput(t)
	stdin, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	c.Stdout, c.Stdin = out.write, dup(t, stdin)
	defer c.Stdin.Close()
	stdin.Close()
	p := start(t, r, c)
	if got := out.line(t); got != "ready" {
		t.Fatal(got)
	}
	dups, refused, err := p.Tree().Duplicates(inodes)
	if err != nil || refused != 0 || len(dups) != 2 {
		t.Fatalf("%d duplicates, %d refused, %v", len(dups), refused, err)
	}
	byInode := make(map[uint64]*child.Duplicate)
	for _, d := range dups {
		defer d.FD.Close()
		byInode[d.Inode] = d
		if !d.Held() {
			t.Errorf("%d is not held", d.Inode)
		}
	}
	fmt.Fprintln(in)
	if got := out.line(t); got != "closed" {
		t.Fatal(got)
	}
	if d := byInode[numbers[kept]]; d == nil || !d.Held() {
		t.Error("the main process has let go of the first one")
	} else if pid, exiting := d.Holder(); pid != p.Pid() || exiting {
		t.Errorf("%d holds it, exiting: %t", pid, exiting)
	}
	if d := byInode[numbers[closed]]; d == nil || d.Held() {
		t.Error("the second one is held still")
	} else if pid, exiting := d.Holder(); pid == p.Pid() || !exiting {
		t.Errorf("%d held it, exiting: %t", pid, exiting)
	}
}
