package child

// A Stage is how far a start came.
type Stage string

// An ExecError is a program that could not be started.
type ExecError struct {
	Path  string // what could not be started
	Stage Stage
	Err   error // the errno
	Text  string
}

func (e *ExecError) Error() string { return e.Text }
func (e *ExecError) Unwrap() error { return e.Err }
