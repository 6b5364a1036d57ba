package leaktest

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// patience is how long what was let go of may take to be gone: net/http and the runtime end some of theirs a moment later.
const patience = 5 * time.Second

// Main runs the tests, and returns the exit status: not 0 if they have left something, which is printed then.
func Main(m *testing.M) int {
	before := descriptors()
	code := m.Run()
	if code != 0 {
		return code
	}
	var left string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if left = leaks(before); left == "" {
			return 0
		}
	}
	fmt.Fprintf(os.Stderr, "FAIL: the tests have left something behind:\n%s", left)
	return 1
}

// leaks describes what there is beside what there was before.
func leaks(before map[string]bool) string {
	var left strings.Builder
	for d := range descriptors() {
		if !before[d] {
			fmt.Fprintln(&left, "descriptor", d)
		}
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for i, stack := range strings.Split(string(stacks), "\n\n") {
		if i > 0 && !strings.Contains(stack, "os/signal.") { // the first is this one; signals are waited for, for ever, from the first use on
			fmt.Fprintln(&left, stack)
		}
	}
	return left.String()
}

// descriptors returns what is open, as number and target, but for what the runtime's poller opens once and keeps.
func descriptors() map[string]bool {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	open := make(map[string]bool)
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && !strings.HasPrefix(target, "anon_inode:[event") { // an error: the one that lists them
			open[e.Name()+" "+target] = true
		}
	}
	return open
}
