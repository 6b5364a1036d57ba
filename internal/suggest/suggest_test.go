package suggest

import "testing"

func TestDidYouMean(t *testing.T) {
	t.Parallel()
	known := []string{"backlog", "ready.timeout", "permissions", "mode", "drain.signal"}
	for word, want := range map[string]string{
		"bcklog": "backlog", "timeout": "ready.timeout", "perm": "permissions", "modes": "mode", "drain.singal": "drain.signal",
		"xyz": "", "m": "", "": "", "entirely-different": "",
	} {
		if want != "" {
			want = ` (did you mean "` + want + `"?)`
		}
		if got := DidYouMean(word, known); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}
