// Package leaktest fails a package's tests when they leave descriptors or goroutines behind.
//
// It is for TestMain. go.uber.org/goleak would see goroutines alone, and what this module's packages own is descriptors
// most of all.
package leaktest
