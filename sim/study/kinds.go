package study

import (
	"fmt"
	"slices"

	"lockstep/sim"
)

// The ways in which the daemon can tell the kinds of jobs.
const (
	ByLabel   = "label"   // of --kind
	ByName    = "name"    // of the job: its kind and a number
	ByProgram = "program" // all jobs are of one
)

// KindsBy are the ways by name.
var KindsBy = []string{ByLabel, ByName, ByProgram}

// withKindsBy is the work as a client submits it that gives kinds in another way than by labels.
func withKindsBy(by string, batches []batch) []batch {
	if by == ByLabel {
		return batches
	}
	all, n := make([]batch, len(batches)), 0
	for i, b := range batches {
		all[i].at = b.at
		for _, j := range b.jobs {
			n++
			other := plannedJob{kind: j.kind, ops: slices.Clone(j.ops)}
			label := "kind=any"
			if by == ByName {
				label, other.name = "", fmt.Sprintf("%s-%d", j.kind, n)
			}
			for k, op := range other.ops {
				other.ops[k] = sim.OpSpec(kindLabel.ReplaceAllString(string(op), label))
			}
			all[i].jobs = append(all[i].jobs, other)
		}
	}
	return all
}
