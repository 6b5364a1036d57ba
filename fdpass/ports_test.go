package fdpass

import (
	"errors"
	"testing"
)

// Private ports are nobody else's.
func TestPrivatePortsConflict(t *testing.T) {
	t.Parallel()
	const own = "a=tcp://:80?pass=port&ports=81-82"
	for _, test := range []struct {
		other string
		wrong bool
	}{
		{"b=tcp://:83?pass=port&ports=84-85", false},
		{"b=tcp://:83?pass=port&ports=82,85", true},
		{"b=tcp://:81", true},
		{"b=tcp://127.0.0.1:82", true},
		{"b=udp://:81", false},
		{"b=tcp://:83?pass=port&ports=80,85", true},
		{"b=unix:///x", false},
	} {
		for _, texts := range [][]string{{own, test.other}, {test.other, own}} {
			var specs []Spec
			for _, text := range texts {
				s, err := ParseSpec(text)
				must(t, err)
				specs = append(specs, s)
			}
			err := ValidateSet(specs)
			var set *SetError
			if errors.As(err, &set) != test.wrong {
				t.Errorf("%q: %v", texts, err)
			} else if test.wrong && (set.Index != 1 || set.Other != 0) {
				t.Errorf("%q: %+v", texts, set)
			}
		}
	}
}

// A name of a table is one of nft's, whatever the service is called, and that of
// one service is never taken for that of another.
func TestTableName(t *testing.T) {
	t.Parallel()
	for service, want := range map[string]string{"svc": "zddsupervisor-svc-80", "a@b:c": "zddsupervisor-a_b_c-80"} {
		if got := tableName(service, 80); got != want {
			t.Errorf("%s: %s", service, got)
		}
	}
}
