// Package dependency decides which jobs wait for the end of other jobs, and what happens when these end (queue.md 4.6;
// designs.md "Chained jobs"; design.md "Differences"). The caller reports the dependencies of a job's next opcode, and the ends of
// jobs, to a Graph. The Graph returns for each job whether the opcode may begin, waits, or can never begin, and which
// jobs the caller must look up.
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

// Outcome says whether a job's status satisfies a dependency.
type Outcome uint8

const (
	// Unmet: the job has not ended.
	Unmet Outcome = iota
	// Met: the job has ended in a required status.
	Met
	// Fails: the job has ended in another status, and the dependent job fails.
	Fails
	// Cancels: the job was canceled, and the dependent job is canceled, too.
	Cancels
)

// Evaluate is the outcome of a dependency for a job's status. A dependency without statuses is met by success and
// error. A canceled job cancels all jobs that depend on it and do not list that status.
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

// CauseKind says why a dependency cannot be met.
type CauseKind uint8

const (
	// WrongStatus: the job has ended in a status that was not required.
	WrongStatus CauseKind = iota
	// MissingJob: no job has the id.
	MissingJob
	// SelfDependency: the job depends on itself.
	SelfDependency
	// LaterJob: the job depends on a job with a larger id.
	LaterJob
)

// Cause says why a job can never begin its next opcode.
type Cause struct {
	Dependency opcode.Dependency // the first dependency that cannot be met
	Kind       CauseKind
	Status     job.Status // status of the other job, if WrongStatus
}

// String is a text for users.
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
