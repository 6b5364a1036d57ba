package fdpass

import "errors"

// ErrShutDown says that a generation has called shutdown(2) on its socket.
var ErrShutDown = errors.New("the generation has shut the socket down: nobody can connect to it")

func (sh *shared) Listening(gen int) error { return sh.open() }

func (sh *shared) Revive(gen int) (bool, error) { return false, sh.open() }

func (st *steered) Listening(gen int) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.open(); err != nil {
		return err
	}
	seat := st.seatOf(gen)
	if seat == nil {
		return nil
	}
	_, limit, err := tcpQueue(seat.fd.Raw())
	if err == nil && limit == Unknown {
		err = ErrShutDown
	}
	return err
}
