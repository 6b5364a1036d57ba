package child

import "context"

// A Delegation is the cgroup that systemd has delegated to the supervisor.
type Delegation struct{}

// OpenDelegation finds it and moves this process into its leaf "supervisor".
// It returns nil and no error where nothing was delegated.
func OpenDelegation() (*Delegation, error) { return nil, nil }

// New makes the cgroup of a generation, for instance "gen-7".
func (d *Delegation) New(name string) (*Cgroup, error) { return nil, errTodo }

// Open finds one that exists, for a generation that is taken over.
func (d *Delegation) Open(name string) (*Cgroup, error) { return nil, errTodo }

// A Cgroup holds the processes of one generation.
type Cgroup struct{}

// Name is the name that New was given.
func (c *Cgroup) Name() string { return "" }

// Kill kills all processes in it.
func (c *Cgroup) Kill() error { return errTodo }

// Empty blocks until no process is left in it.
func (c *Cgroup) Empty(ctx context.Context) error { return errTodo }

// Close gives its descriptor back and leaves the cgroup.
func (c *Cgroup) Close() error { return nil }

// Remove closes it and removes the empty cgroup.
func (c *Cgroup) Remove() error { return errTodo }
