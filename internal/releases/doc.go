// Package releases keeps the releases of a service on disk: a directory with one directory for each, and a symbolic
// link, current, to the one that the next generation runs.
//
// # Invariants
//
// The link is replaced by rename(2): whoever looks finds the old one or the new one, and never none. A release appears
// under its name whole, and on disk (syncfs(2)), or not at all; what is being installed or removed has a name that begins
// with a dot, which no release has. What a process that died has left of that is removed by the next one that installs or
// prunes.
//
// What is installed stays inside: no file of an archive or a directory is written outside of the new release, and no
// symbolic link in it leads out of it.
//
// The package knows nothing about generations and handoffs: what must not be removed, and when the link is replaced, is the
// caller's business. Its functions block on the file system. It holds no descriptors between calls.
package releases
