// Package link makes two network namespaces and a wire between them that is as slow and as bad as a test wants it: each packet takes a
// while, and some are lost. It needs root and /dev/net/tun, and nothing of the kernel's traffic control.
package link
