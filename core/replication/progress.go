package replication

import "lockstep/core/job"

// Progress is the progress of a job as a number. It never decreases between two starts of the job, because statuses only
// move along their table.
func Progress(j *job.Job) int {
	total := 0
	for i := range j.Ops {
		total += int(rankOf(&j.Ops[i]))
	}
	return total
}

// rankOf orders the states of an opcode in one start. An opcode whose try has ended is waiting, and has come further than a running one;
// one that waits for a process has not begun.
func rankOf(op *job.Op) uint8 {
	switch {
	case op.AwaitsTry():
		return statusRank[job.Queued]
	case op.TryEnded():
		return statusRank[job.Running] + 1
	}
	return statusRank[op.Status]
}

// statusRank orders the statuses of an opcode.
var statusRank = map[job.Status]uint8{
	job.Queued:    0,
	job.Waiting:   1,
	job.Running:   2,
	job.Canceling: 3,
	job.Canceled:  4,
	job.Success:   4,
	job.Error:     4,
}
