// Package dependency is who waits for which job to end, and what becomes of it then
// (queue.md 4.6; designs.md "Chained jobs"; design.md 8).
//
// A dependency points to a job with a smaller id: a job cannot wait for itself or
// for one that came later, and what is declared so is refused when it is held
// against it. So jobs that wait for one another in a circle cannot be, and nobody
// looks for them.
package dependency

import (
	"slices"
	"strings"

	"lockstep/core/job"
	"lockstep/core/opcode"
)

// Outcome is what a dependency makes of a job's status.
type Outcome uint8

const (
	// Unmet: the job has not ended.
	Unmet Outcome = iota
	// Met: it has ended as was required.
	Met
	// Fails: it has ended otherwise, and who depends on it fails.
	Fails
	// Cancels: it was canceled, and so is who depends on it.
	Cancels
)

// Evaluate tells what a dependency makes of a job's status. One that names no status
// is met by success and error; a canceled job cancels all that depend on it and
// do not say that they want that.
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

// Cause is why a job cannot begin any more.
type Cause struct {
	Dependency opcode.Dependency // the first one, as declared, that cannot be met
	Kind       CauseKind
	Status     job.Status // of the job depended on, if Unfit
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
