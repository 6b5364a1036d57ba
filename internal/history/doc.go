// Package history keeps the record of a supervisor's handoffs: JSON, one row a line, in the state directory.
//
// There are two kinds of rows: one for each handoff, when it has ended, and one for each generation of which no process is
// left. Read joins the second to the first. Rows are only ever appended, and are on disk (fsync(2)) a moment after what they
// tell of. They have a version; fields may be added within one, and a reader passes over what it does not know.
//
// A Log writes. It never holds up whoever has something to tell: one goroutine of its own writes, and Close waits for it. Where
// that fails, since the file system is full or read-only, rows wait in memory, as many as have room, until it can.
//
// A file that has grown to its limit is renamed, and the oldest of those is removed. Each write opens the file anew, so that two
// supervisors, one of which follows the other, and whoever moves the files away, do not disturb each other; a line that was
// not written to its end is followed by a new one, and readers leave it out.
package history
