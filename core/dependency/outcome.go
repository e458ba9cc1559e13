// Package dependency decides which jobs wait for the end of other jobs, and what happens when these end (queue.md 4.6;
// designs.md "Chained jobs"; design.md 8). A Graph is given the dependencies of a job's next opcode and the ends of
// jobs. It returns for each job whether the opcode may begin, waits, or can never begin, and which jobs the caller
// must look up.
//
// A dependency refers to a job with a smaller id. A job cannot wait for itself or for a later job: such a dependency
// is refused when it is added. So there are no cycles of jobs, and the package does not search for them.
package dependency

import (
	"slices"
	"strings"

	"lockstep/core/job"
	"lockstep/core/opcode"
)

// Outcome is how a job's status satisfies a dependency.
type Outcome uint8

const (
	// Unmet: the job has not ended.
	Unmet Outcome = iota
	// Met: it has ended as was required.
	Met
	// Fails: it has ended in another status, and the dependent job fails.
	Fails
	// Cancels: it was canceled, and so is the dependent job.
	Cancels
)

// Evaluate tells how a job's status satisfies a dependency. A dependency without statuses is met by success and error.
// A canceled job cancels all jobs that depend on it and do not list that status.
func Evaluate(d opcode.Dependency, status job.Status) Outcome {
	switch {
	case !status.Final():
		return Unmet
	case slices.Contains(d.Statuses, status.String()):
		return Met
	case status == job.Canceled:
		return Cancels
	case len(d.Statuses) == 0:
		return Met
	}
	return Fails
}

// CauseKind is what is wrong with a dependency.
type CauseKind uint8

const (
	// WrongStatus: the job has ended, in a status that was not required.
	WrongStatus CauseKind = iota
	// MissingJob: no job has the id.
	MissingJob
	// SelfDependency: the id is that of the job that depends on it.
	SelfDependency
	// LaterJob: the job was submitted after the one that depends on it.
	LaterJob
)

// Cause is why a job can never begin its next opcode.
type Cause struct {
	Dependency opcode.Dependency // the first one, as declared, that cannot be met
	Kind       CauseKind
	Status     job.Status // of the job depended on, if WrongStatus
}

// String is for people.
func (c Cause) String() string {
	other := "job " + job.ID(c.Dependency.Job).String()
	switch {
	case c.Kind == MissingJob:
		return other + " does not exist"
	case c.Kind == SelfDependency:
		return "a job cannot wait for itself"
	case c.Kind == LaterJob:
		return other + " was submitted later: a job can wait only for earlier ones"
	case c.Status == job.Canceled:
		return other + " was canceled"
	}
	return other + " ended with status " + c.Status.String() + ", " + required(c.Dependency.Statuses) + " was required"
}

func required(statuses []string) string {
	last := len(statuses) - 1
	if last < 1 {
		return strings.Join(statuses, "")
	}
	return strings.Join(statuses[:last], ", ") + " or " + statuses[last]
}
