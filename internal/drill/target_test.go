package drill

import "testing"

// A supervisor's socket is where the URL leads only on this machine, and only at its address.
func TestServedBy(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		url, unix, socket string
		want              bool
	}{
		{"http://127.0.0.1:8080/", "", "tcp://127.0.0.1:8080", true},
		{"http://127.0.0.1:8080/", "", "tcp://0.0.0.0:8080", true},
		{"http://127.0.0.1:8080/", "", "tcp://[::]:8080", true},
		{"http://[::1]:8080/", "", "tcp6://[::1]:8080", true},
		{"http://127.0.0.1:8080/", "", "tcp://127.0.0.1:8081", false},
		{"http://127.0.0.1:8080/", "", "tcp://127.0.0.2:8080", false},
		{"http://127.0.0.1:8080/", "", "udp://127.0.0.1:8080", false},
		{"http://192.0.2.1:8080/", "", "tcp://0.0.0.0:8080", false},
		{"http://192.0.2.1:8080/", "", "tcp://192.0.2.1:8080", true},
		{"http://svc/", "/run/s", "unix:///run/s", true},
		{"http://svc/", "/run/s", "unix:///run/other", false},
	} {
		c := Config{URL: test.url, Unix: test.unix, AllowRemote: true}
		got, err := c.ServedBy(t.Context(), []string{test.socket})
		if err != nil || got != test.want {
			t.Errorf("%+v: %v, %v", test, got, err)
		}
	}
}
