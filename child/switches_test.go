package child

import "testing"

// Where the kernel does not count both kinds of context switches, nothing is known.
func TestSwitches(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]string{
		"State:\tS\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t7\n": "5 7",
		"State:\tS\nvoluntary_ctxt_switches:\t5\n":                                 "",
		"State:\tS\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_sw":             "",
		"State:\tS\n": "",
	} {
		if got := switchesOf([]byte(status)); got != want {
			t.Errorf("%q: %q", status, got)
		}
	}
}
