package upgrade

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/internal/carry"
)

// savedVersion is the version of the state file. A supervisor reads its own version and no other: what it cannot be
// sure of it does not act on.
const savedVersion = 1

// maxSaved bounds the size of a state file, in bytes.
const maxSaved = 64 << 20

// ErrSaved is wrapped by LoadSaved's error about a state file that cannot be used.
var ErrSaved = errors.New("the state file cannot be used")

// Saved is what a supervisor has written down for the one after it: everything that it takes to take its service over.
type Saved struct {
	Version int    `json:"version"`
	Boot    string `json:"boot"` // the kernel's boot id: in another boot nothing in it means anything

	Phase    string          `json:"phase"`
	Number   int             `json:"number"`   // the newest generation's
	Handoffs int             `json:"handoffs"` // that have begun
	Live     int             `json:"live,omitempty"`
	Orphan   int             `json:"orphan,omitempty"` // the one that crashed, whose seat waits for an heir
	Plan     json.RawMessage `json:"plan,omitempty"`   // of the live generation
	Last     *Record         `json:"last,omitempty"`

	Uncarried carry.Reason `json:"uncarried,omitempty"` // why no connections are carried over any more

	LastRelease string   `json:"last_release,omitempty"` // of the last generation that was live
	GoBack      []string `json:"go_back,omitempty"`      // releases, of which the next start takes the first that is fit

	Sockets     []fdpass.Snapshot `json:"sockets"`
	Bound       []savedBound      `json:"bound"` // of the live generation
	Generations []savedGeneration `json:"generations"`
	Handoff     *savedHandoff     `json:"handoff,omitempty"` // that is under way
}

// savedBound is a fdpass.Bound; Socket is an index of Saved.Sockets.
type savedBound struct {
	Socket int         `json:"socket"`
	Spec   fdpass.Spec `json:"spec"`
}

// savedHandoff is a handoff that is under way.
type savedHandoff struct {
	Record Record          `json:"record"`
	Began  moment          `json:"began"`          // Record.Began is for showing
	New    int             `json:"new,omitempty"`  // the generation, once it has a process
	Plan   json.RawMessage `json:"plan,omitempty"` // of the new generation
	Bound  []savedBound    `json:"bound,omitempty"`
	UID    uint32          `json:"uid"` // that the new generation runs as

	Pointed *savedPointing `json:"pointed,omitempty"` // what Plan's releases have been changed to
}

// savedPointing is a pointing.
type savedPointing struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// savedGeneration is a generation that has a process.
type savedGeneration struct {
	Number    int             `json:"number"`
	Release   string          `json:"release,omitempty"`
	Role      Role            `json:"role"`
	Kind      Kind            `json:"kind,omitempty"` // of the handoff that made it live
	PID       int             `json:"pid"`
	StartTime uint64          `json:"start_time"` // as /proc/PID/stat has it
	UID       uint32          `json:"uid"`
	Cgroup    string          `json:"cgroup,omitempty"` // its name
	Plan      json.RawMessage `json:"plan"`
	Bound     []savedBound    `json:"bound"`
	Inodes    []uint64        `json:"inodes"` // of its sockets
	Status    string          `json:"status,omitempty"`
	Started   moment          `json:"started"`
	Ready     moment          `json:"ready,omitempty"`
	Lived     moment          `json:"lived,omitempty"`
	Why       string          `json:"why,omitempty"`
	Served    bool            `json:"served,omitempty"`
	Telling   bool            `json:"telling,omitempty"` // its stop signal is about to be sent
	Told      bool            `json:"told,omitempty"`    // its stop signal was sent
	Open      []OpenSocket    `json:"open,omitempty"`
	Deaf      []string        `json:"deaf,omitempty"` // the sockets by which nobody gets to it

	ReplacedBy  int  `json:"replaced_by,omitempty"` // the handoff that made the next one live
	OnProbation bool `json:"on_probation,omitempty"`
}

// LoadSaved reads a state file. It returns nil and no error if there is none. An error that wraps ErrSaved says that
// it is not one, is cut off, or is that of another version or another boot.
func LoadSaved(path string) (*Saved, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSaved, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSaved+1))
	if err != nil {
		return nil, fmt.Errorf("%w: read %s: %w", ErrSaved, path, err)
	}
	saved, err := decodeSaved(b)
	if err == nil && saved.Boot != bootID() {
		err = fmt.Errorf("%w: it was written before the machine was started", ErrSaved)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return saved, nil
}

// decodeSaved reads and checks a state.
func decodeSaved(b []byte) (*Saved, error) {
	var version struct {
		Version int `json:"version"`
	}
	if len(b) > maxSaved {
		return nil, fmt.Errorf("%w: it has more than %d bytes", ErrSaved, maxSaved)
	}
	if err := json.Unmarshal(b, &version); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSaved, err)
	}
	if version.Version != savedVersion {
		return nil, fmt.Errorf("%w: it has version %d, and this supervisor reads %d", ErrSaved, version.Version, savedVersion)
	}
	s := new(Saved)
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSaved, err)
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSaved, err)
	}
	return s, nil
}

// check looks for what no supervisor has written.
func (s *Saved) check() error {
	if phaseNamed(s.Phase) == phases {
		return fmt.Errorf("there is no phase %q", s.Phase)
	}
	bound := [][]savedBound{s.Bound}
	numbers := make(map[int]bool)
	for _, g := range s.Generations {
		switch {
		case g.Number < 1 || g.Number > s.Number || numbers[g.Number]:
			return fmt.Errorf("there cannot be a generation %d", g.Number)
		case g.PID < 2 || g.StartTime == 0:
			return fmt.Errorf("generation %d cannot have the process %d", g.Number, g.PID)
		case len(g.Inodes) != len(g.Bound):
			return fmt.Errorf("generation %d has %d sockets and %d inodes", g.Number, len(g.Bound), len(g.Inodes))
		case strings.ContainsAny(g.Cgroup, "/\x00"):
			return fmt.Errorf("generation %d cannot have the cgroup %q", g.Number, g.Cgroup)
		}
		numbers[g.Number] = true
		bound = append(bound, g.Bound)
	}
	if s.Live != 0 && !numbers[s.Live] {
		return fmt.Errorf("the live generation %d is not there", s.Live)
	}
	if h := s.Handoff; h != nil {
		if h.New != 0 && !numbers[h.New] {
			return fmt.Errorf("the new generation %d is not there", h.New)
		}
		bound = append(bound, h.Bound)
	}
	for _, list := range bound {
		for _, b := range list {
			if b.Socket < 0 || b.Socket >= len(s.Sockets) {
				return fmt.Errorf("there is no socket %d", b.Socket)
			}
		}
	}
	return nil
}

// HasService reports whether a service was running when it was written.
func (s *Saved) HasService() bool { return s != nil && len(s.Generations) > 0 }

// Stopping reports whether the supervisor was being stopped when it was written.
func (s *Saved) Stopping() bool {
	p := phaseNamed(s.Phase)
	return p == Stopping || p == Stopped
}

// LivePlan returns what the live generation was started from, as Plan.Source had it; nil if none was live.
func (s *Saved) LivePlan() json.RawMessage { return s.Plan }

// Files returns the unix paths that were bound.
func (s *Saved) Files() []fdpass.Snapshot {
	var files []fdpass.Snapshot
	for _, socket := range s.Sockets {
		if socket.File != nil {
			files = append(files, socket)
		}
	}
	return files
}

// phaseNamed is the inverse of Phase.String; phases if there is none of that name.
func phaseNamed(name string) Phase {
	for p := range phases {
		if p.String() == name {
			return p
		}
	}
	return phases
}

// bootID names this boot of the machine.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(b))
}

// writeSaved replaces the file at path in one step: whoever reads it finds the old one or the new one, whole.
func writeSaved(path string, b []byte) error {
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := os.WriteFile(temporary, b, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
