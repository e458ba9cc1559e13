// Package persistence knows paths and durability, not meaning: the contents of
// every file are opaque bytes to it.
//
//	atomic.go      replacing a file so that a reader sees the old bytes or the new ones
//	osfiles.go     the other file operations of the stores, relative to the data directory
//	sweep.go       removal of temporary files that dead writers left
//	layout.go      names and paths of the queue, the sockets and the livelocks
//	init.go        directories, queue/version and queue/serial at first start
//	lock.go        queue/lock: one daemon per data directory
//	livelock.go    files whose lock tells whether a process is alive
//	scan.go        reading all live job files at daemon start
//	quarantine.go  setting an unreadable queue file aside
//
// Three steps make a data directory ready, in this order: [MakeDirs],
// [LockQueue], [InitQueue]. The lock comes before InitQueue because two daemons
// that both found no serial could otherwise set it back under each other.
//
// The package is linked into the job process, whose start must stay quick: it
// imports the standard library and golang.org/x/sys/unix only. The rules on
// what is synced when are in the design, section 4, "Durable or not".
package persistence
