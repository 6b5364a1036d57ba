// Package probe asks a generation of the service the way a client would, through the service's own address, but so that no
// other generation can answer.
package probe
