// Package persistence knows paths and durability, not meaning: the contents of
// every file are opaque bytes to it.
//
//	atomic.go      replacing a file so that a reader sees the old bytes or the new ones
//	append.go      adding to a file, for the locks' journal
//	osfiles.go     the other file operations of the stores, relative to the data directory
//	sweep.go       removal of temporary files that dead writers left
//	rundir.go      where sockets and livelocks are
//	init.go        directories, queue/version and queue/serial at first start
//	member.go      whether queue/ is the one that the rest of the data belongs to
//	lock.go        queue/lock: one daemon per data directory
//	dirlock.go     locks of directories: one daemon per run directory, too
//	livelock.go    files whose lock tells whether a process is alive
//	boot.go        what tells one run of the machine from another
//	highest.go     the serial, made anew from the job files
//	archive.go     removing archived jobs that are old
//
// Four steps make the directories ready, in this order: [MakeDirs],
// [LockQueue], [LockRun], [InitQueue]. The lock comes before InitQueue because two daemons
// that both found no serial could otherwise set it back under each other.
//
// The package is linked into the job process, whose start must stay quick: it
// imports the standard library, golang.org/x/sys/unix and the names of core/paths
// only. The rules on
// what is synced when are in design.md 4, "Durable or not".
package persistence
