// Package config turns a TOML file and command-line flags into the
// configuration of one supervisor.
//
// One table, Keys, holds every key with its type, default and meaning. The
// file's decoder, the flags and the reference documentation all follow from it,
// so that none of them can know a key that the others do not.
//
// A Source is where a configuration comes from. Its Load is called anew for
// each handoff: it reads the file again and lays the same flags over it. What
// it returns is complete and checked, or it is an error that tells every
// problem with its place, one a line.
//
// What may change between a Load and the start of a process is not resolved by
// Load: Config.Environ and Config.Release look at environment files, the user
// database and the current release whenever they are called. Load looks at them
// only to find mistakes early.
//
// The package reads files and the user database. It does not read the process's
// environment or working directory, which the caller gives it. It starts no
// process and opens no socket.
package config
