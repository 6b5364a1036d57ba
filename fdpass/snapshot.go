package fdpass

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
)

// A Snapshot is what has to be known of a Socket, besides its descriptors, to
// have it again in another process. It is plain data.
type Snapshot struct {
	Spec   Spec          `json:"spec"`
	Mode   Mode          `json:"mode"`
	Target int           `json:"target,omitempty"` // the generation that new connections go to, in steered mode
	Parts  []Part        `json:"parts"`            // in the kernel's order
	File   *FileIdentity `json:"file,omitempty"`   // of a unix path that was bound
	Table  string        `json:"table,omitempty"`  // of the firewall, with PassPort
	Ports  []OwnPort     `json:"ports,omitempty"`  // of the generations, where they open their sockets themselves
}

// A Part is one kernel socket of a Socket: its only one in shared mode, one for
// each seat in steered mode.
type Part struct {
	ID         string `json:"id"`                   // its name for as long as the machine runs
	Inode      uint64 `json:"inode"`                // as /proc/PID/fd has it
	Generation int    `json:"generation,omitempty"` // whose seat it is; 0 for nobody's, and in shared mode
	Lane       int    `json:"lane,omitempty"`       // which of Snapshot.Ports it is, from 1, where the service opens its sockets itself
	Foreign    bool   `json:"foreign,omitempty"`    // systemd has it by itself
}

// An OwnPort is a port on which a generation listens by itself.
type OwnPort struct {
	Generation int    `json:"generation"` // 0 for nobody any more
	Port       uint16 `json:"port"`
}

// A FileIdentity tells one file from every other that exists at the same time.
type FileIdentity struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
}

// partID makes the ID of a socket with this SO_COOKIE, which no other has had
// since the machine was started. It is good as a name in systemd's store.
func partID(cookie uint64) string { return IDPrefix + strconv.FormatUint(cookie, 16) }

// IDPrefix is what every Part's ID begins with.
const IDPrefix = "zdd-"

// ErrLost is wrapped by the error of Restore where no descriptor of a socket is
// left.
var ErrLost = errors.New("no process has it open any more")

// Restore makes a Socket of its snapshot. find returns a descriptor of a part,
// which is borrowed, or nil if there is none; it is duplicated. A part that is
// not to be had, or does not listen any more, has left its group, and is left
// out. If none is left, the error wraps ErrLost. New connections go where the
// snapshot says, from its return on; a share that was given away is taken back.
func Restore(s Snapshot, find func(Part) *FD, log *slog.Logger) (Socket, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if err := s.Spec.Validate(); err != nil {
		return nil, fmt.Errorf("restore a socket: %w", err)
	}
	socket, err := restore(s, find, log)
	if err != nil {
		return nil, fmt.Errorf("restore socket %s: %w", s.Spec.FDName(), err)
	}
	return socket, nil
}
