package leaktest

import (
	"os"
	"strings"
	"testing"
)

// A descriptor and a goroutine that are left are seen, and not any more once they are gone. It is not parallel.
func TestLeaks(t *testing.T) {
	before := descriptors()
	others := leaks(before) // of package testing
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		r.Read(make([]byte, 1))
		close(ended)
	}()
	if got := leaks(before); strings.Count(got, "descriptor ") != 2 || !strings.Contains(got, "TestLeaks") {
		t.Errorf("with a pipe that is read: %s", got)
	}
	w.Close()
	<-ended
	r.Close()
	if got := leaks(before); strings.Contains(got, "descriptor ") || strings.Count(got, "goroutine ") > strings.Count(others, "goroutine ") {
		t.Errorf("with nothing: %s, and was %s", got, others)
	}
}
