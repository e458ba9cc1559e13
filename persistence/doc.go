// Package persistence reads and writes the files of lockstep. It knows paths and
// durability; the contents of every file are opaque bytes to it.
//
//	atomic.go      replacing a file so that a reader sees the old bytes or the new ones
//	append.go      adding to a file, for the journals of the locks and of the configuration
//	osfiles.go     the other file operations of the stores, relative to the data directory
//	owners.go      user, group and mode of new files
//	replace.go     atomic replacement of files that no actor owns
//	sweep.go       removal of temporary files that dead writers left
//	regular.go     opening of files that must be regular ones
//	freeze.go      copies of the shared files, for snapshots
//	rundir.go      paths of sockets and livelocks
//	rundirnote.go  which run directory the processes of the data directory live in
//	init.go        directories, queue/version and queue/serial at the first start
//	queuemark.go   whether queue/ is the one that the rest of the data belongs to
//	lock.go        queue/lock: one daemon per data directory
//	dirlock.go     locks of directories: one daemon per run directory, too
//	livelock.go    files whose lock tells whether a process is alive
//	lease.go       the file by which job processes see the lease
//	boot.go        the id of this boot of the machine
//	highestid.go   the serial, restored from the job files
//	archive.go     removal of old archived jobs
//	kept.go        reading and removal of kept output
//
// It is the only package that replaces a file atomically. It has no state beyond open
// descriptors and locks, which the kernel frees when the process ends. After a power loss a
// file has its old or its new content, and durable content if the caller has synced.
//
// Four steps make the directories ready, in this order: [MakeDirs], [LockQueue], [LockRun],
// [InitQueue]. The lock comes before InitQueue because two daemons that both found no serial
// could otherwise set it back under each other.
//
// The job process links this package, and its start must stay quick: the package imports the
// standard library, golang.org/x/sys/unix, core/paths and core/ownership only. The rules on what
// is synced when are in design.md "Durable or not".
package persistence
