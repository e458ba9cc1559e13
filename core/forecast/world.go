package forecast

import (
	"time"

	"lockstep/core/durations"
	"lockstep/core/job"
	"lockstep/core/lock"
	"lockstep/core/sched"
)

// World is what a play starts from.
//
// Invariant: a job is in at most one of Running, First, Waiting and Beyond.
type World struct {
	Now      time.Time
	Settings sched.Settings
	Running  []Job // they have a slot
	First    []Job // the first candidates, in order
	Waiting  []Job // for other jobs, or without an estimate
	Beyond   []Job // candidates behind the first ones, of which an estimate is asked for
	Locks    []sched.OwnerLocks
}

// Job is an unfinished job.
type Job struct {
	ID         job.ID
	Priority   int
	ReceivedUs int64
	Limits     []sched.Limit
	Ops        []Op      // from the running or the next one on; at least one
	Began      time.Time // of a running job: when the first of Ops began; zero: not known
	Continues  bool      // it has a process, and waits between two opcodes without a slot
	After      []job.ID  // the jobs that it waits for
	Obstacle   Obstacle  // why it has no estimate
	By         string    // who or what the obstacle is, for people; may be empty
	Due        time.Time // of the obstacle Due: the job does not start before
}

// Op is an opcode that has not ended.
type Op struct {
	Declared lock.Declaration
	Kind     string
	Takes    durations.Range
}

// Obstacle is why something is not known.
type Obstacle string

// The obstacles.
const (
	NoObstacle Obstacle = ""
	Filter     Obstacle = "filter"     // a filter rule holds the job back until the rule is changed or deleted
	Hold       Obstacle = "hold"       // an operator holds the job
	Due        Obstacle = "due"        // the job starts at a time that has not come, or is between two tries of its command
	Limit      Obstacle = "limit"      // a limit that no running job leaves
	Foreign    Obstacle = "foreign"    // an owner that is no job has locks, and its end is not known
	NoHistory  Obstacle = "no-history" // no opcode of a kind has ended yet
	Dependency Obstacle = "dependency" // the job waits for one that has no estimate, or for a failure
	Behind     Obstacle = "behind"     // jobs without an estimate come first
	OtherOrder Obstacle = "order"      // the order is not expected
)

func (j *Job) candidate(op int) sched.Candidate {
	c := sched.Candidate{ID: j.ID, Priority: j.Priority, ReceivedUs: j.ReceivedUs, Limits: j.Limits, Declared: j.Ops[op].Declared}
	for _, o := range j.Ops[op:] {
		c.Expected += o.Takes.Median
	}
	return c
}

// unknownKind is the first kind without history among the opcodes of a job.
func (j *Job) unknownKind() (string, bool) {
	for _, o := range j.Ops {
		if !o.Takes.Known {
			return o.Kind, true
		}
	}
	return "", false
}

// Pace is which durations of a range a play uses.
type Pace int

// The paces.
const (
	Fast Pace = iota
	Typical
	Slow
)

func (p Pace) of(r durations.Range) time.Duration {
	switch p {
	case Fast:
		return min(r.Low, r.Median)
	case Slow:
		return max(r.High, r.Median)
	}
	return r.Median
}

// left is how much longer an opcode takes that has executed for the time elapsed. If elapsed is more than the pace expects, the
// opcode ends at once at the pace Fast, takes half of elapsed longer at Typical, and all of elapsed at Slow.
func (p Pace) left(r durations.Range, elapsed time.Duration) time.Duration {
	switch left := p.of(r) - elapsed; {
	case left > 0:
		return left
	case p == Fast:
		return 0
	case p == Typical:
		return elapsed / 2
	}
	return max(elapsed, 0)
}
