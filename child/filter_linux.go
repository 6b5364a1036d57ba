package child

import (
	"encoding/binary"
	"errors"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child/internal/shim"
)

// errForeignMachine is why no filter can be made on a kind of machine.
var errForeignMachine = errors.New("sockets cannot be adopted on " + runtime.GOARCH + " machines")

// An abi is one way to make system calls, as a filter tells them apart.
type abi struct {
	arch       uint32
	bind       uint32
	socketcall uint32 // which is bind(2) with its first argument; 0 where there is none
}

// sysBind is SYS_BIND of linux/net.h, see socketcall(2).
const sysBind = 2

// nativeABI returns the ABI of programs for this machine.
func nativeABI() (abi, bool) {
	archs := map[string]uint32{
		"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64, "riscv64": unix.AUDIT_ARCH_RISCV64,
		"loong64": unix.AUDIT_ARCH_LOONGARCH64, "ppc64le": unix.AUDIT_ARCH_PPC64LE,
	}
	arch, ok := archs[runtime.GOARCH]
	return abi{arch: arch, bind: unix.SYS_BIND}, ok
}

// smallABIs returns the ABIs of 32-bit programs that run on this machine too. Their calls are
// notified only to be told of: see lender.
func smallABIs() []abi {
	switch runtime.GOARCH {
	case "amd64":
		return []abi{{arch: unix.AUDIT_ARCH_I386, bind: 361, socketcall: 102}}
	case "arm64":
		return []abi{{arch: unix.AUDIT_ARCH_ARM, bind: 282}}
	}
	return nil
}

// Offsets in struct seccomp_data, see seccomp(2).
const (
	dataCall = 0
	dataArch = 4
	dataArgs = 16
)

// bindFilter returns a filter that notifies of bind(2) and listen(2), and allows everything
// else. All but the calls themselves is decided without a look at arguments, so that the
// kernel (Linux 5.11) does not even run it for other calls.
func bindFilter() (*shim.Filter, error) {
	native, ok := nativeABI()
	if !ok {
		return nil, errForeignMachine
	}
	p := filterProgram{}
	p.abi(native.arch, func() {
		p.notify(native.bind)
		p.notify(unix.SYS_LISTEN)
	})
	for _, small := range smallABIs() {
		p.abi(small.arch, func() {
			p.notify(small.bind)
			if small.socketcall != 0 {
				p.skipUnless(small.socketcall, 3)
				p.load(dataArgs) // its low half: these are little-endian machines
				p.notify(sysBind)
			}
		})
	}
	p.answer(unix.SECCOMP_RET_ALLOW)
	return &shim.Filter{Call: unix.SYS_SECCOMP, Program: p.encode()}, nil
}

// A filterProgram is a program in the making.
type filterProgram []unix.SockFilter

func (p *filterProgram) add(code uint16, k uint32, jt, jf uint8) {
	*p = append(*p, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
}

func (p *filterProgram) load(offset uint32) { p.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset, 0, 0) }

func (p *filterProgram) answer(action uint32) { p.add(unix.BPF_RET|unix.BPF_K, action, 0, 0) }

// skipUnless skips n instructions if what was loaded is not k.
func (p *filterProgram) skipUnless(k uint32, n uint8) {
	p.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, k, 0, n)
}

// notify notifies if what was loaded is k.
func (p *filterProgram) notify(k uint32) {
	p.skipUnless(k, 1)
	p.answer(unix.SECCOMP_RET_USER_NOTIF)
}

// abi adds what do adds for calls of an architecture, with the number of the call loaded. The
// other calls of it are allowed.
func (p *filterProgram) abi(arch uint32, do func()) {
	p.load(dataArch)
	at := len(*p)
	p.skipUnless(arch, 0)
	p.load(dataCall)
	do()
	p.answer(unix.SECCOMP_RET_ALLOW)
	(*p)[at].Jf = uint8(len(*p) - at - 1)
}

func (p filterProgram) encode() []byte {
	var b []byte
	for _, i := range p {
		b = binary.NativeEndian.AppendUint16(b, i.Code)
		b = append(b, i.Jt, i.Jf)
		b = binary.NativeEndian.AppendUint32(b, i.K)
	}
	return b
}
