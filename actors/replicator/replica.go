package replicator

import (
	"fmt"

	"lockstep/core/paths"
	"lockstep/core/replication"
	"lockstep/messages"
)

// replica is the state of the log at the last entry that is on this node's disk, as far
// as the files on the disk do not tell it.
type replica struct {
	node string // this node
	// applied is the index of the last entry on the disk. It never falls.
	applied uint64
	running replication.RunningJobs
	// contents are the files of jobs that run on this node, by job id, as the log has
	// them. The disk may have newer ones, which the job processes have written. A job
	// whose file the log has not changed since the start of this incarnation is missing.
	contents map[int64][]byte
}

func newReplica(node string) *replica {
	return &replica{node: node, running: replication.RunningJobs{}, contents: map[int64][]byte{}}
}

// attach takes what the log remembers of an earlier incarnation.
func (x *replica) attach(applied uint64, state []byte) {
	x.applied, x.running = applied, decodeRunning(state)
}

func decodeRunning(state []byte) replication.RunningJobs {
	running, err := replication.DecodeRunningJobs(state)
	if err != nil {
		panic(err)
	}
	return running
}

// apply takes entries that are on the disk. index is that of the last.
func (x *replica) apply(index uint64, entries []*messages.LogEntry) {
	x.applied = index
	for _, e := range entries {
		x.running.Apply(e)
		for _, c := range e.Changes {
			x.applyContents(c)
		}
	}
}

func (x *replica) applyContents(c *messages.FileChange) {
	for _, file := range replication.ChangedPaths(c) {
		id, isJob := replication.JobIDOf(file)
		if !isJob {
			continue
		}
		delete(x.contents, id)
		if x.running[id].Node == x.node {
			x.contents[id] = c.GetUpdate().GetContent()
		}
	}
}

// restore takes the state of a snapshot that is on the disk.
func (x *replica) restore(index uint64, running replication.RunningJobs) {
	clear(x.contents)
	x.applied, x.running = index, running
}

// isRunning reports whether a job has begun and not ended, according to the log.
func (x *replica) isRunning(id int64) bool {
	_, begun := x.running[id]
	return begun
}

// own returns the running jobs of this node, ascending.
func (x *replica) own() []int64 { return x.running.StartedOn(x.node) }

// committedFiles answers with the files of the running jobs of this node, as the log has
// them. The files on this node's disk may be newer; to send these would let a failover
// undo what another node has read.
func (x *replica) committedFiles() *messages.GetCommittedFilesResult {
	answer := &messages.GetCommittedFilesResult{}
	for _, id := range x.own() {
		content, known := x.contents[id]
		if !known {
			answer.Failure = messages.Generic(fmt.Errorf("job %d runs here, and it is not known what the others have of it", id))
			break
		}
		answer.Files = append(answer.Files, &messages.FileWrite{Op: "freeze", Path: paths.JobPath(id), Content: content})
	}
	return answer
}

// asLogged replaces, in a scan of the disk, the files of running jobs by those that the
// log has. before has the files whose content in the log is not known: as they were on
// the disk before they were proposed.
func (x *replica) asLogged(q *messages.ScanQueueResult, before map[int64][]byte) *messages.ScanQueueResult {
	as := &messages.ScanQueueResult{Serial: q.Serial, Drained: q.Drained, Failure: q.Failure, Orphans: q.Orphans}
	for _, j := range q.Jobs {
		content, known := x.contents[j.Id]
		if !known {
			content, known = before[j.Id]
		}
		if known && x.isRunning(j.Id) && j.Failure == nil {
			j = &messages.ScannedJob{Id: j.Id, Content: content, Record: j.Record}
		}
		as.Jobs = append(as.Jobs, j)
	}
	return as
}
