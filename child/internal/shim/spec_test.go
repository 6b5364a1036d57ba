package shim

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

func full() *Spec {
	mask := uint32(0o27)
	return &Spec{
		Path:       "/srv/x/bin/svc",
		Args:       []string{"svc", "", "--quiet"},
		Env:        []string{"A=1", "B=ä"},
		Dir:        "/srv/x",
		Keep:       7,
		ListenPID:  true,
		Cgroup:     "/sys/fs/cgroup/x/cgroup.procs",
		Umask:      &mask,
		Limits:     []Limit{{Resource: 7, Cur: 1 << 40, Max: ^uint64(0)}},
		Filter:     &Filter{Call: 317, Program: []byte{6, 0, 0, 0, 0, 0, 255, 127}},
		Credential: &Credential{UID: 1000, GID: 1001, Groups: []uint32{5, 6}},
	}
}

func TestSpec(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]*Spec{
		"empty": {},
		"full":  full(),
		"root":  {Path: "/bin/true", Umask: new(uint32), Credential: &Credential{}},
	} {
		b, err := Encode(spec)
		if err != nil {
			t.Fatal(err)
		}
		n, err := DecodeHeader(b[:HeaderSize])
		if err != nil || n != len(b)-HeaderSize {
			t.Fatalf("%s: length %d of %d, %v", name, n, len(b), err)
		}
		got, err := Decode(b[HeaderSize:])
		if err != nil || !reflect.DeepEqual(got, spec) {
			t.Errorf("%s became %+v, %v", name, got, err)
		}
	}
}

func TestSpecErrors(t *testing.T) {
	t.Parallel()
	if _, err := Encode(&Spec{Args: []string{"a\x00b"}}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a NUL: %v", err)
	}
	if _, err := Encode(&Spec{Path: strings.Repeat("x", MaxSpec)}); !errors.Is(err, syscall.E2BIG) {
		t.Errorf("too long: %v", err)
	}
	b, err := Encode(full())
	if err != nil {
		t.Fatal(err)
	}
	header, body := b[:HeaderSize], b[HeaderSize:]
	for name, h := range map[string][]byte{
		"short":   header[:HeaderSize-1],
		"foreign": append([]byte("else"), header[4:]...),
		"newer":   append([]byte(magic+"\x09"), header[5:]...),
		"huge":    append([]byte(magic+"\x02\x00\x00\x00"), 255, 255, 255, 255),
		"long":    append(bytes.Clone(header), 0),
	} {
		if _, err := DecodeHeader(h); !errors.Is(err, syscall.EPROTO) {
			t.Errorf("%s header: %v", name, err)
		}
	}
	for n := range len(body) {
		if s, err := Decode(body[:n]); !errors.Is(err, syscall.EPROTO) || s != nil {
			t.Errorf("the first %d bytes: %v, %v", n, s, err)
		}
	}
	if _, err := Decode(append(bytes.Clone(body), 0)); !errors.Is(err, syscall.EPROTO) {
		t.Errorf("a byte more: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []*Spec{{}, full()} {
		b, err := Encode(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[HeaderSize:])
	}
	f.Add([]byte{255, 255, 255, 255})
	f.Add(append([]byte{0, 0, 0, 0}, 255, 255, 255, 255)) // a list longer than what follows
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Decode(b)
		if (s == nil) != (err != nil) {
			t.Fatalf("%v, %v", s, err)
		}
		if err != nil {
			return
		}
		again, err := Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again[HeaderSize:], b) {
			t.Errorf("%x became %x", b, again[HeaderSize:])
		}
	})
}

func FuzzDecodeHeader(f *testing.F) {
	f.Add([]byte(magic + "\x02\x00\x00\x00\x05\x00\x00\x00"))
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		if n, err := DecodeHeader(b); n < 0 || n > MaxSpec || err != nil && n != 0 {
			t.Errorf("%d, %v", n, err)
		}
	})
}

func TestReports(t *testing.T) {
	t.Parallel()
	ready := []byte{recordReady}
	for stage := StageSpec; stage < stageEnd; stage++ {
		want := Report{Stage: stage, Errno: syscall.ENOENT, Detail: 3}
		sent := encodeReport(want)
		if stage == StageExec {
			sent = append(bytes.Clone(ready), sent...)
		}
		if len(sent) > MaxReports {
			t.Errorf("stage %d takes %d bytes", stage, len(sent))
		}
		if got, err := DecodeReports(sent); err != nil || *got != want {
			t.Errorf("stage %d: %+v, %v", stage, got, err)
		}
	}
	if got, err := DecodeReports(append([]byte{recordListener}, ready...)); got != nil || err != nil {
		t.Errorf("with a listener: %+v, %v", got, err)
	}
	if got, err := DecodeReports(ready); got != nil || err != nil {
		t.Errorf("ready: %+v, %v", got, err)
	}
	failed := encodeReport(Report{Stage: StageExec, Errno: syscall.ENOENT})
	for name, sent := range map[string][]byte{
		"nothing":           {},
		"a listener alone":  {recordListener},
		"listener twice":    {recordListener, recordListener, recordReady},
		"exec before ready": failed,
		"ready twice":       append(bytes.Clone(ready), ready...),
		"a part":            append(bytes.Clone(ready), failed[:4]...),
		"no errno":          append(bytes.Clone(ready), encodeReport(Report{Stage: StageExec})...),
		"no stage":          encodeReport(Report{Errno: syscall.EPERM}),
		"unknown stage":     encodeReport(Report{Stage: stageEnd, Errno: syscall.EPERM}),
		"ready, then not":   append(bytes.Clone(ready), encodeReport(Report{Stage: StageUmask, Errno: syscall.EPERM})...),
	} {
		if got, err := DecodeReports(sent); !errors.Is(err, syscall.EPROTO) || got != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func FuzzDecodeReports(f *testing.F) {
	f.Add([]byte{recordReady})
	f.Add(encodeReport(Report{Stage: StageUmask, Errno: syscall.EPERM}))
	f.Add(append([]byte{recordReady}, encodeReport(Report{Stage: StageExec, Errno: syscall.ENOENT})...))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeReports(b)
		if err != nil && r != nil {
			t.Errorf("%v with %v", r, err)
		}
	})
}

func TestDecimal(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 7: "7", 10: "10", 4194304: "4194304"} {
		if got := decimal(n); got != want {
			t.Errorf("%d became %s", n, got)
		}
	}
}

func TestParseFD(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]int{"3": 3, "17": 17, "100000000": 100000000, "0": -1, "2": -1, "": -1, "x": -1, "3x": -1, "-3": -1, "9999999999": -1} {
		if got, ok := parseFD(s); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %d, %v", s, got, ok)
		}
	}
}

func TestSubset(t *testing.T) {
	t.Parallel()
	if !subset([]uint32{1, 9}, []uint32{1, 2}, 9) || subset([]uint32{3}, []uint32{1, 2}, 9) || !subset(nil, nil, 0) {
		t.Error("wrong")
	}
}
