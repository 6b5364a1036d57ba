package fdpass

import (
	"fmt"
	"slices"
)

// place returns where in the group a generation's seat is; 0 if it has none. The
// caller holds mu.
func (st *steered) place(gen int) int {
	return max(0, slices.IndexFunc(st.seats, func(s *seat) bool { return s.gen == gen }))
}

// steer makes the group do what target, canary and dialing say. The caller holds
// mu.
func (st *steered) steer() error {
	if st.sink != nil {
		return steering{to: []int{len(st.seats)}}.attach(st.sink.Raw())
	}
	s := steering{to: []int{st.place(st.target)}}
	if st.canary != 0 {
		s.canary, s.share = []int{st.place(st.canary)}, st.share
	}
	for _, c := range st.dialing {
		if st.seatOf(c.gen) != nil {
			s.probes = append(s.probes, probe{c.from, c.to, st.place(c.gen)})
		}
	}
	if err := s.attach(st.seats[0].fd.Raw()); err != nil {
		return err
	}
	for _, s := range st.seats {
		s.reached = s.reached || st.shareOf(s.gen) > 0
	}
	return nil
}

// turn changes where connections go. On an error nothing has changed. The caller
// holds mu.
func (st *steered) turn(target, canary int, share float64) error {
	oldTarget, oldCanary, oldShare := st.target, st.canary, st.share
	st.target, st.canary, st.share = target, canary, share
	if err := st.steer(); err != nil {
		st.target, st.canary, st.share = oldTarget, oldCanary, oldShare
		return err
	}
	for _, s := range st.seats {
		s.turned()
	}
	return nil
}

// turnAway lets a generation have no share any more, if it has one. The caller
// holds mu.
func (st *steered) turnAway(gen int) error {
	if gen != st.canary {
		return nil
	}
	return st.turn(st.target, 0, 0)
}

func (st *steered) Cutover(gen int) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.open(); err != nil {
		return err
	}
	if s := st.seatOf(gen); gen == 0 && (s == nil || !s.foreign) {
		return nil
	}
	if err := st.accepts(gen); err != nil {
		return err
	}
	if st.target == gen && st.canary == 0 {
		return nil
	}
	return st.turn(gen, 0, 0)
}

func (st *steered) Share(gen int, share float64) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.open(); err != nil {
		return err
	}
	if err := st.accepts(gen); err != nil {
		return err
	}
	return st.turn(st.target, gen, share)
}

// accepts returns an error if connections cannot be sent to a generation. The
// caller holds mu.
func (st *steered) accepts(gen int) error {
	switch s := st.seatOf(gen); {
	case s == nil:
		return fmt.Errorf("generation %d has no socket on %s", gen, st.Addr())
	case s.forwards:
		return fmt.Errorf("generation %d was told to stop, and what comes to it on %s is passed on", gen, st.Addr())
	}
	return nil
}

// shareOf returns which part of new connections goes to a generation. The caller
// holds mu.
func (st *steered) shareOf(gen int) float64 {
	switch {
	case st.canary != 0 && gen == st.canary:
		return st.share
	case gen == st.target:
		return 1 - st.share
	}
	return 0
}
