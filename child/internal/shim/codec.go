package shim

// An encoder appends values. Numbers are little-endian, strings and lists begin
// with their length.
type encoder struct {
	buf []byte
	nul bool // a string had a NUL
}

func (e *encoder) uint32(v uint32) {
	e.buf = append(e.buf, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
}

func (e *encoder) uint64(v uint64) {
	e.uint32(uint32(v))
	e.uint32(uint32(v >> 32))
}

func (e *encoder) bool(v bool) {
	if v {
		e.buf = append(e.buf, 1)
	} else {
		e.buf = append(e.buf, 0)
	}
}

func (e *encoder) string(v string) {
	for i := range len(v) {
		e.nul = e.nul || v[i] == 0
	}
	e.uint32(uint32(len(v)))
	e.buf = append(e.buf, v...)
}

func (e *encoder) bytes(v []byte) {
	e.uint32(uint32(len(v)))
	e.buf = append(e.buf, v...)
}

func (e *encoder) strings(v []string) {
	e.uint32(uint32(len(v)))
	for _, s := range v {
		e.string(s)
	}
}

// A decoder takes values from the front of buf. After a value that is not there
// or cannot be, bad is set and everything reads as zero.
type decoder struct {
	buf []byte
	bad bool
}

// take returns the next n bytes, or nil.
func (d *decoder) take(n uint64) []byte {
	if d.bad || n > uint64(len(d.buf)) {
		d.bad, d.buf = true, nil
		return nil
	}
	b := d.buf[:n]
	d.buf = d.buf[n:]
	return b
}

func (d *decoder) uint32() uint32 {
	b := d.take(4)
	if b == nil {
		return 0
	}
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

func (d *decoder) uint64() uint64 {
	low := d.uint32()
	return uint64(low) | uint64(d.uint32())<<32
}

func (d *decoder) bool() bool {
	b := d.take(1)
	if b == nil || b[0] > 1 {
		d.bad = true
		return false
	}
	return b[0] == 1
}

func (d *decoder) string() string {
	b := d.take(uint64(d.uint32()))
	for _, c := range b {
		if c == 0 {
			d.bad = true
			return ""
		}
	}
	return string(b)
}

// bytes returns a copy.
func (d *decoder) bytes() []byte {
	return append([]byte(nil), d.take(uint64(d.uint32()))...)
}

// count returns the length of a list whose elements have at least size bytes
// each, so that a length that is a lie allocates nothing.
func (d *decoder) count(size uint64) uint32 {
	n := d.uint32()
	if d.bad || uint64(n)*size > uint64(len(d.buf)) {
		d.bad, d.buf = true, nil
		return 0
	}
	return n
}

func (d *decoder) strings() []string {
	n := d.count(4)
	if n == 0 {
		return nil
	}
	list := make([]string, 0, n)
	for range n {
		list = append(list, d.string())
	}
	return list
}
