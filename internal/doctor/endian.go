package doctor

import "encoding/binary"

// littleEndian reports in which order this machine has its bytes.
func littleEndian() bool { return binary.NativeEndian.Uint16([]byte{1, 0}) == 1 }
