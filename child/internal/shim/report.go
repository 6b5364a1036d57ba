package shim

import "syscall"

// A Stage is a step on the way from fork to the program. The numbers travel
// between two copies of the same binary alone.
type Stage uint8

const (
	StageNone        Stage = iota
	StageSpec              // reading the spec
	StageCgroup            // joining the cgroup
	StageLimits            // setting Limits; Detail is the index
	StageUmask             // setting Umask
	StageFilter            // installing Filter; Detail is one of the constants below
	StageCredential        // becoming Credential
	StageDirectory         // entering Dir
	StageDescriptors       // marking descriptors close-on-exec
	StageSignals           // resetting signals
	StageExec              // executing Path
	stageEnd
)

// What has failed about a Filter.
const (
	FilterPrivileges = 1 // giving up the gain of privileges, see PR_SET_NO_NEW_PRIVS in prctl(2)
	FilterInstall    = 2 // seccomp(2)
	FilterSend       = 3 // sending its listener to the parent
)

// A Report is a step that failed.
type Report struct {
	Stage  Stage
	Errno  syscall.Errno
	Detail uint32
}

const (
	recordReady    = 1 // all is done but the exec
	recordFailed   = 2 // a Report follows
	recordListener = 3 // the listener of the Filter comes with it

	failedSize = 1 + 1 + 4 + 4

	// MaxReports bounds what a shim sends, in bytes.
	MaxReports = 2 + failedSize
)

func encodeReport(r Report) []byte {
	e := encoder{buf: []byte{recordFailed, byte(r.Stage)}}
	e.uint32(uint32(r.Errno))
	e.uint32(r.Detail)
	return e.buf
}

// DecodeReports reads all that a shim has sent until it closed its socket. A nil
// report means that it got as far as the exec, and that this did not fail.
// EPROTO means that it ended before that without saying why.
func DecodeReports(b []byte) (*Report, error) {
	if len(b) > 0 && b[0] == recordListener {
		b = b[1:]
	}
	ready := len(b) > 0 && b[0] == recordReady
	if ready {
		b = b[1:]
	}
	if len(b) == 0 {
		if !ready {
			return nil, syscall.EPROTO
		}
		return nil, nil
	}
	d := decoder{buf: b}
	kind := d.take(1)
	stage := d.take(1)
	r := &Report{Errno: syscall.Errno(d.uint32()), Detail: d.uint32()}
	if d.bad || len(d.buf) > 0 || kind[0] != recordFailed {
		return nil, syscall.EPROTO
	}
	r.Stage = Stage(stage[0])
	if r.Stage == StageNone || r.Stage >= stageEnd || r.Errno == 0 || ready != (r.Stage == StageExec) {
		return nil, syscall.EPROTO
	}
	return r, nil
}
