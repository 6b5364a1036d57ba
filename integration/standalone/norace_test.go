//go:build !race

package standalone

const racing = false
