package child

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// Catches reports whether the process has a handler for a signal, see proc_pid_status(5). os.ErrNotExist says that it has ended.
func (p *Process) Catches(sig unix.Signal) (bool, error) { return catches(p.id, sig) }

// HolderCatches is Catches for the Holder.
func (d *Duplicate) HolderCatches(sig unix.Signal) (bool, error) {
	return catches(d.holders[0].id, sig)
}

func catches(id procID, sig unix.Signal) (bool, error) {
	var buf [16 << 10]byte
	text, err := readProc(id.pid, "status", buf[:])
	if err != nil {
		return false, err
	}
	caught, err := strconv.ParseUint(string(statusField(text, "SigCgt:")), 16, 64)
	if err != nil {
		return false, fmt.Errorf("read which signals process %d catches: %w", id.pid, err)
	}
	return caught&(1<<(sig-1)) != 0, nil
}
